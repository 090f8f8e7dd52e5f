"""The most memory of every command on a long study of many people, and how it grows with them.

    python benchmarks/memory.py [--people N ...] [--periods N] [--reach N]

Two releases, a window and a total, of people who all report in the first period; later their last
answer is carried forward, so that panels, journal and public log are those of a study in which
everybody reports every month. Every command is a process of its own that reports its peak
(VmHWM). `run` reads, closes and publishes all periods but the last, `restart` recovers and closes
the last one. The commands of analysts read the public log alone.

With several numbers of people the growth between the largest two is continued to `--reach`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import record

COMMANDS = ("run", "restart", "verify", "estimate", "export", "releases")
SHOWN = COMMANDS[:5]
_STUDY = """
[study]
name = "memory"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = "1e-6"
[study.periods]
first = "2021-01"
every = "month"
count = {periods}
[study.population]
size = {people}
[attributes.poor]
values = [0, 1]
missing = {{ carry = true, first = 0 }}
{releases}
[run]
log = "sqlite:memory.db"
public = "sqlite:memory-public.db"
"""
_WINDOW = """
[[releases]]
name = "quarters"
kind = "window"
attribute = "poor"
width = 3
rho = "{rho}"
"""
_TOTALS = """
[[releases]]
name = "months"
kind = "cumulative"
attribute = "poor"
event = [1]
rho = "{rho}"
"""
_CHILD = """
import re, sys
from pathlib import Path
from stream_dp.services.commands.cli import main
code = main(sys.argv[1:])
status = Path("/proc/self/status").read_text()
print(code, int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) // 1024, file=sys.stderr)
"""


def study_text(people: int, periods: int, *, window: bool = True) -> str:
    """The study file. window: whether the totals share the budget with a window."""
    releases = [_WINDOW, _TOTALS] if window else [_TOTALS]
    declared = "".join(releases).format(rho=f"1/{len(releases)}")
    return _STUDY.format(people=people, periods=periods, releases=declared)


def send(folder: Path, people: int) -> None:
    """Everybody's report for the first period."""
    from stream_dp.log.log import Record
    from stream_dp.services.storage.deployment import Deployment
    from stream_dp.study.topics import topics_of

    deployment = Deployment.load(folder / "study.toml")
    log = deployment.log()
    log.create(topics_of(deployment.study, 1)[0])
    text = b'{"person":"p%d","period":"2021-01","values":{"poor":%d}}'
    for start in range(0, people, 50_000):
        several = range(start, min(people, start + 50_000))
        log.append(Record("reports", text % (i, i % 7 == 0), partition=0) for i in several)
    log.close()


def close(folder: Path, first: int, last: int) -> None:
    """Markers that close the periods `first` to `last`."""
    from stream_dp.services.intake.markers import close_marker
    from stream_dp.services.storage.deployment import Deployment

    log = Deployment.load(folder / "study.toml").log()
    log.append(close_marker(number, 0) for number in range(first, last + 1))
    log.close()


def peak(*words: object) -> tuple[int, float]:
    """MiB and seconds of a command in a process of its own."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, words)], capture_output=True, text=True
    )
    code, mib = map(int, done.stderr.split()[-2:])
    if code:
        raise SystemExit(done.stderr)
    return mib, time.perf_counter() - start


def measured(people: int, periods: int) -> dict[str, tuple[int, float]]:
    """By command, MiB at most and seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, public = folder / "study.toml", f"sqlite:{folder / 'memory-public.db'}"
        file.write_text(study_text(people, periods))
        send(folder, people)
        close(folder, 1, periods - 1)
        figures = {"run": peak("run", file, "--until-idle")}
        close(folder, periods, periods)
        figures["restart"] = peak("run", file, "--until-idle")
        figures["verify"] = peak("verify", file)
        figures["estimate"] = peak("estimate", public, "quarters", "pattern 1 1 1")
        figures["export"] = peak("export", public, "months", folder / "out.parquet")
        figures["releases"] = peak("releases", public)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--periods", type=int, default=60)
    parser.add_argument("--reach", type=int, default=10_000_000)
    options = parser.parse_args()
    rows = {people: measured(people, options.periods) for people in sorted(options.people)}
    print(f"{options.periods} periods, two releases; MiB at most (seconds)")
    print(f"{'people':<14}" + "".join(f"{name:>16}" for name in COMMANDS))
    for people, figures in rows.items():
        cells = (f"{figures[name][0]} ({figures[name][1]:.0f})" for name in COMMANDS)
        print(f"{people:<14,}" + "".join(f"{cell:>16}" for cell in cells))
        record("memory", f"{people:,}", *(figures[name][0] for name in SHOWN))
    if len(rows) > 1:
        (fewer, less), (more, most) = list(rows.items())[-2:]
        reached = {
            name: most[name][0]
            + (most[name][0] - less[name][0]) / (more - fewer) * (options.reach - more)
            for name in COMMANDS
        }
        cells = (f"{reached[name]:.0f}" for name in COMMANDS)
        print(f"{options.reach:<14,}" + "".join(f"{cell:>16}" for cell in cells) + "  (computed)")
        print(json.dumps({name: round(value) for name, value in reached.items()}))


if __name__ == "__main__":
    main()
