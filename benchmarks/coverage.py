"""How often the intervals of estimates cover the truth: coupled totals beside windows.

    python benchmarks/coverage.py [--seeds N]

A study of 13 periods publishes windows of 3 periods and totals, with simulated noise and new people
for each seed. 101 questions are asked of each: all 91 sums S_b(t), and 10 of patterns in the last
period. The line is the part of all intervals of 95 % that cover, for each relation, with its
standard error over the seeds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.public_logs import log_in_memory, published
from kit.studies import attribute, cumulative, small_study, window
from result_file import record

from stream_dp.client import PublicLog
from stream_dp.panel import Symbols
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Study

PERIODS, PEOPLE = 13, 3000
SUMS = [(b, t) for t in range(1, PERIODS + 1) for b in range(1, t + 1)]
PATTERNS = [
    *(f"pattern {code >> 2} {code >> 1 & 1} {code & 1}" for code in range(1, 8)),
    "at-least 1 of last 3 poverty=1",
    "at-least 2 of last 3 poverty=1",
    "at-least 3 of last 3 poverty=1",
]


def study(relation: str) -> Study:
    private = relation == "add_remove"
    bound = {"rows": PEOPLE} if private else {}
    return small_study(
        name="coverage",
        neighbours=relation,
        periods={"first": 1, "every": "step", "count": PERIODS},
        size=None if private else PEOPLE,
        attributes={"poverty": attribute([0, 1], missing=0)},
        releases=[
            window("windows", "poverty", width=3, rho="1/20"),
            cumulative("totals", "poverty", [1], rho="1/20", **bound),
        ],
    )


def people(seed: int) -> Symbols:
    """(people, periods): events with a chance of one's own that a last event raises."""
    random = np.random.default_rng(seed)
    own = random.beta(1, 3, PEOPLE)
    symbols = np.zeros((PEOPLE, PERIODS), np.uint8)
    for t in range(PERIODS):
        before = symbols[:, t - 1] if t else 0
        symbols[:, t] = random.random(PEOPLE) < 0.7 * own + 0.3 * before
    return symbols


def covered(relation: str, seed: int) -> float:
    """The part of the questions whose interval covers the truth."""
    declared, symbols = study(relation), people(seed)
    messages = published(declared, {declared.releases[0].stream: symbols}, SeededNoise(seed))
    log = PublicLog(log_in_memory(messages))
    questions = [("totals", f"total at-least {b}", str(t)) for b, t in SUMS]
    questions += [("windows", pattern, str(PERIODS)) for pattern in PATTERNS]
    totals = symbols.cumsum(axis=1)
    truth = [int((totals[:, t - 1] >= b).sum()) for b, t in SUMS]
    last = symbols[:, -3:].astype(np.int64)
    codes = last @ [4, 2, 1]
    truth += [int((codes == code).sum()) for code in range(1, 8)]
    truth += [int((last.sum(axis=1) >= need).sum()) for need in (1, 2, 3)]
    intervals = [answer.interval for answer in log.answers(questions, count=True).answers]
    hits = [low <= true <= high for (low, high), true in zip(intervals, truth, strict=True)]
    return sum(hits) / len(hits)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=25)
    options = parser.parse_args()
    print(f"{'relation':<14}{'questions':>10}{'seeds':>7}{'covered':>10}{'error':>8}")
    for relation in ("add_remove", "replace_one"):
        parts = np.array([covered(relation, seed) for seed in range(options.seeds)])
        error = parts.std(ddof=1) / np.sqrt(parts.size)
        asked = len(SUMS) + len(PATTERNS)
        record("coverage", f"`{relation}`", float(parts.mean()), float(error))
        print(f"{relation:<14}{asked:>10}{parts.size:>7}{parts.mean():>10.3f}{error:>8.3f}")


if __name__ == "__main__":
    main()
