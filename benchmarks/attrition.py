"""Verdicts on change of panels that lose people, whose shares among respondents are flat.

Every panel has the same shares of states in every period, and people who leave at random: the last
period lacks 0 to 40 % of the people. Each is published with several seeds and its weights. The
table counts how often the monitor says that the share changed between the first window and the
last period: of respondents by the default answers and by the unbiased ones, each with the exact
upper 95 % bound of the rate, and of everybody. A seed's row counts the seeds before it too.

    RECORD=1 python benchmarks/attrition.py [PANELS] [SEEDS]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.public_logs import log_in_memory, published, with_weights
from kit.studies import attribute, small_study, window
from result_file import record
from scipy.stats import beta

from stream_dp.client import PublicLog
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import ReleaseQuery
from stream_dp.services.monitor.answers_for_people import SURE, noise_alone
from stream_dp.services.monitor.comparison import compared

ABSENT, PERIODS = 2, 6
LABELS = [f"2021-0{number}" for number in range(1, PERIODS + 1)]


def panel(number: int, lost: float) -> np.ndarray:
    """A panel of symbols, (people, periods): a flat share, and people who leave at random."""
    random = np.random.default_rng(number)
    people, share = int(random.integers(300, 1000)), random.uniform(0.1, 0.7)
    symbols = np.empty((people, PERIODS), np.uint8)
    symbols[:, 0] = np.arange(people) < share * people
    for t in range(1, PERIODS):  # as many change in one direction as in the other
        symbols[:, t] = symbols[:, t - 1]
        moved = random.integers(0, people // 50 + 2)
        for state in (0, 1):
            chosen = random.permutation(np.flatnonzero(symbols[:, t - 1] == state))[:moved]
            symbols[chosen, t] = 1 - state
    for state in (0, 1):  # of both states the same part leaves
        for t in range(1, PERIODS):
            of_state = np.flatnonzero(symbols[:, t] == state)
            gone = round(lost * t / (PERIODS - 1) * of_state.size)
            symbols[random.permutation(of_state)[:gone], t] = ABSENT
    return symbols


BY_DEFAULT, UNBIASED, EVERYBODY = "respondents, by default", "respondents, unbiased", "everybody"


def verdicts(symbols: np.ndarray, seed: int) -> dict[str, bool]:
    """Whether a release of a panel lets the monitor say that the share changed."""
    study = small_study(
        rho="1/20",
        size=len(symbols),
        periods={"first": LABELS[0], "every": "month", "count": PERIODS},
        attributes={"work": attribute([0, 1], missing="absent")},
        releases=[window("work", "work", width=2, rho="1/20")],
    )
    noise = SeededNoise(seed)
    log = PublicLog(log_in_memory(with_weights(published(study, {"work": symbols}, noise))))
    said = {}
    for kind, words in ((BY_DEFAULT, ""), (EVERYBODY, " among everybody")):
        first, last = (ReleaseQuery("work", f"work=1{words}", LABELS[t]) for t in (1, -1))
        chances = {kind: compared(log, last, first, count=False).chance}
        if kind == BY_DEFAULT:
            unbiased = log.change(last, first, count=False, unbiased=True)
            chances[UNBIASED] = noise_alone(unbiased)
        said |= {name: chance is not None and chance < SURE for name, chance in chances.items()}
    return said


def largest_rate(said: int, of: int) -> float:
    """The exact upper 95 % bound of a rate (Clopper and Pearson 1934)."""
    return 1.0 if said == of else float(beta.ppf(0.95, said + 1, of - said))


def main() -> None:
    panels, seeds = (int(text) for text in (*sys.argv[1:3], 20, 5)[:2])
    print(f"{'lost':>6} {'releases':>9} {BY_DEFAULT} / bound / {UNBIASED} / bound / {EVERYBODY}")
    said = {lost: Counter[str]() for lost in (0.0, 0.2, 0.4)}
    for seed in range(seeds):
        for lost, counter in said.items():
            for number in range(panels):
                counter.update(verdicts(panel(number, lost), 1000 * number + seed))
            of = panels * (seed + 1)
            row = []
            for kind in (BY_DEFAULT, UNBIASED):
                row += [counter[kind] / of, largest_rate(counter[kind], of)]
            row.append(counter[EVERYBODY] / of)
            print(f"{lost:>6.0%} {of:>9} {' '.join(f'{rate:>8.1%}' for rate in row)}", flush=True)
            record("attrition", f"{lost:.0%} lost", *row)


if __name__ == "__main__":
    main()
