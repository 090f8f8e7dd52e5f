"""Estimates of long studies: seconds and memory of the first question, and what is left of them.

    python benchmarks/estimates.py [--rows N] [--periods T ...]

A window of 3 and totals of the same people are published into a file, with simulated noise, and
asked by processes of their own that have the public file alone. Seconds are CPU seconds:

- import, read: of the library, and of the whole log, whose hashes are checked each time;
- first: of a log that nobody has asked; another: of the same process;
- again: of a question that is new to a new process, with what the first one kept beside the log;
- its MB: the most memory of the first process, and what is kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.monitors import publish
from kit.public_logs import published
from kit.studies import attribute, cumulative, small_study, window
from result_file import record

from stream_dp.privacy.noise import SeededNoise

_ASK = """
import json, re, sys, time
from pathlib import Path
laps = [time.process_time()]
import stream_dp
laps.append(time.process_time())
log = stream_dp.open(sys.argv[1])
laps.append(time.process_time())
month = str(log.study.periods.count // 2)
for name, query in json.loads(sys.argv[2]):
    log.answers([(name, query, month)])
    laps.append(time.process_time())
status = Path("/proc/self/status").read_text()
most = int(re.search(r"VmHWM:[^0-9]+([0-9]+) kB", status)[1]) // 1024
print(json.dumps([[b - a for a, b in zip(laps, laps[1:])], most]))
"""
FIRST, ANOTHER, AGAIN = (
    ["totals", "total at-least 4"],
    ["windows", "at-least 1 of last 3 poverty=1"],
    ["totals", "total at-least 7"],
)


def study(rows: int, periods: int):
    return small_study(
        name="long",
        periods={"first": 1, "every": "step", "count": periods},
        size=rows,
        attributes={"poverty": attribute([0, 1], missing=0)},
        releases=[
            window("windows", "poverty", width=3, rho="1/2"),
            cumulative("totals", "poverty", [1], rho="1/2"),
        ],
    )


def asked(address: str, *questions: list[str]) -> tuple[list[float], int]:
    """Seconds of import, reading and each question, and MB, of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK, address, json.dumps(questions)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, most = json.loads(done.stdout)
    return seconds, most


def line(rows: int, periods: int) -> str:
    declared = study(rows, periods)
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, (rows, periods)).astype(np.uint8)
    began = time.process_time()
    messages = published(declared, {declared.releases[0].stream: truth}, SeededNoise(1))
    made = time.process_time() - began
    with TemporaryDirectory() as name:
        file = Path(name) / "public.db"
        publish(file, messages)
        address = f"sqlite:{file}"
        (imported, read, first, another), most = asked(address, FIRST, ANOTHER)
        (_, _, again), _ = asked(address, AGAIN)
        kept = sum(path.stat().st_size for path in Path(f"{file}.estimates").glob("*"))
    milliseconds = (1000 * another, 1000 * again)
    record("long-studies", str(periods), read, first, *milliseconds, most, kept / 1e6)
    cells = (f"{made:.0f}", f"{imported:.2f}", f"{read:.2f}", f"{first:.2f}")
    cells += (f"{1000 * another:.0f}", f"{1000 * again:.0f}", f"{most}", f"{kept / 1e6:.1f}")
    return f"{periods:>7}" + "".join(f"{cell:>12}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--periods", type=int, nargs="+", default=[60, 240, 600])
    options = parser.parse_args()
    names = ("published, s", "import, s", "read, s", "first, s", "another, ms", "again, ms")
    print(f"{'periods':>7}" + "".join(f"{n:>12}" for n in (*names, "its MB", "kept, MB")))
    for periods in options.periods:
        print(line(options.rows, periods), flush=True)


if __name__ == "__main__":
    main()
