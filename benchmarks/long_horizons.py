"""What a study of many periods costs: bytes of its journal, and CPU seconds of commands.

    python benchmarks/long_horizons.py [PERIODS ...]

A study of totals, whose journal grows fastest: everybody answers once, and later periods carry the
answers forward. All periods but the last are closed and published before anything is measured.
`journal` is the entry of the last of them. Seconds are CPU seconds without imports, the least of
three; `restart` recovers and finds nothing to do. The last row has the exponent b of the fit
`c * periods ** b`.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import memory
import numpy as np
from result_file import record

from stream_dp.services.commands.cli import main as command

PERIODS, PEOPLE = (48, 96, 192, 384), 1000
COMMANDS = {
    "check": ["check"],
    "restart": ["run", "--until-idle"],
    "status": ["status"],
    "verify": ["verify"],
}


def run(*words: str) -> float:
    """CPU seconds of a command in this process."""
    start = time.process_time()
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        code = command(list(words))
    if code:
        raise SystemExit(f"{words[0]} ended with {code}")
    return time.process_time() - start


def journal_kilobytes(folder: Path, before: int) -> float:
    """What the journal has beyond `before` bytes."""
    with closing(sqlite3.connect(folder / "memory.db")) as db:
        (size,) = db.execute(
            "SELECT SUM(LENGTH(value)) FROM records WHERE topic = 'journal'"
        ).fetchone()
    return (size - before) / 1000


def measured(periods: int) -> list[float]:
    """Kilobytes of a journal entry, and seconds by command."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "study.toml"
        file.write_text(memory.study_text(PEOPLE, periods, window=False))
        memory.send(folder, PEOPLE)
        memory.close(folder, 1, periods - 2)
        run("run", str(file), "--until-idle")
        before = round(1000 * journal_kilobytes(folder, 0))
        memory.close(folder, periods - 1, periods - 1)
        run("run", str(file), "--until-idle")
        figures = [journal_kilobytes(folder, before)]
        for head, *options in COMMANDS.values():
            figures.append(min(run(head, str(file), *options) for _ in range(3)))
    return figures


def main() -> None:
    several = [int(word) for word in sys.argv[1:]] or PERIODS
    print(f"{'periods':<10}{'journal, kB':>12}" + "".join(f"{name:>10}" for name in COMMANDS))
    rows = {}
    for periods in several:
        rows[periods] = measured(periods)
        record("horizons", f"{periods}", *rows[periods])
        cells = "".join(f"{figure:>10.3f}" for figure in rows[periods][1:])
        print(f"{periods:<10}{rows[periods][0]:>12.1f}{cells}", flush=True)
    if len(rows) > 1:
        fits = np.polyfit(np.log(list(rows)), np.log(list(rows.values())), 1)[0].tolist()
        record("horizons", "grows as", *fits)
        print(f"{'grows as':<10}{fits[0]:>12.2f}" + "".join(f"{fit:>10.2f}" for fit in fits[1:]))


if __name__ == "__main__":
    main()
