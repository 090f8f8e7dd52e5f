"""One person's faulty rows, from a CSV file through `send`, `close` and `run` to the releases.

Whatever one person's rows are, every command ends as it does without them, everybody else has the
same state at every close, and the public side is the same where the noisy answers coincide.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.killed import in_memory
from kit.panels import fix_secrets
from kit.studies import BINARY, MARKER, MONTHS, attribute, study_toml, window
from noninterference.coupled import Coupled, Vector, recorded, releasers_with

from stream_dp.log.sqlite import SqliteLog
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.commands import cli
from stream_dp.services.storage import journal
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import RELEASES
from stream_dp.studyfile import load_study

MONTH = ["2021-01", "2021-02"]
OTHERS = [f"{n:04}" for n in range(1, 41)]
X = "0042"
TEXT = study_toml(
    rho=0.6,
    neighbours="add_remove",
    size=None,
    periods={**MONTHS, **MARKER, "count": len(MONTH)},
    attributes={**BINARY, "work": attribute(["yes", "no"], missing="absent")},
    releases=[window("pairs", "poverty", width=2, rho=0.2)],
    run={"log": "sqlite:small.db", "public": "sqlite:small-public.db"},
)


def rows_of_x(month: str) -> list[bytes]:
    return [f"{X},{month},yes,1".encode()]


# The rows of X in the file of a month.
FAULTS: dict[str, Callable[[str], list[bytes]]] = {
    "no row": lambda month: [],
    "an unknown period": lambda month: [f"{X},1999-13,yes,1".encode()],
    "a period that is over": lambda month: [f"{X},2021-01,yes,1".encode()],
    "an unknown value": lambda month: [f"{X},{month},maybe,poor".encode()],
    "empty cells": lambda month: [f"{X},{month},,".encode()],
    "no id": lambda month: [f",{month},yes,1".encode()],
    "another id": lambda month: [f"42.0,{month},no,0".encode()],
    "cells too many": lambda month: [f"{X},{month},yes,1,1,2,3".encode()],
    "cells too few": lambda month: [f"{X},{month}".encode()],
    "bytes of another encoding": lambda month: [f"{X},{month},yes,1".encode() + b"\xfc\xff"],
    "a quote in a cell": lambda month: [f'{X},{month},yes,1"2'.encode()],
    "a line break in a cell": lambda month: [f'{X},{month},yes,"1\n2"'.encode()],
    "a NUL": lambda month: [f"{X},{month},yes,1\0".encode()],
    "a very long cell": lambda month: [f"{X},{month},yes,".encode() + b"1" * 70_000],
    "many rows that contradict each other": lambda month: [
        f"{X},{month},no,{n % 2}".encode() for n in range(15)
    ],
}


class Outcome:
    """The outcome of a study for everybody but X.

    codes: the exit code of every command.
    states: after each close, the state of each other person.
    public: the bytes of the releases.
    """

    def __init__(self, folder: Path, rows: Callable[[str], list[bytes]], source: Coupled) -> None:
        folder.mkdir(parents=True)
        file = folder / "small.toml"
        file.write_text(TEXT)
        self.codes: list[int] = []
        self.states: list[dict[str, Any]] = []
        with pytest.MonkeyPatch.context() as patch:
            fix_secrets(patch)
            releasers_with(patch, source)
            for month in MONTH:
                table = folder / f"{month}.csv"
                table.write_bytes(_table(month, rows(month)))
                self._do("send", file, table)
                self._do("close", file, month)
                self._do("run", file, "--until-idle")
                self.states.append(_states(file))
        with closing(SqliteLog(folder / "small-public.db", public=True, readonly=True)) as log:
            records = log.read(RELEASES, {0: 0}, 10_000, 0).records
            self.public = [(r.key, r.value, r.headers) for r in records]

    def _do(self, *words: object) -> None:
        self.codes.append(cli.main([*map(str, words)]))


def _table(month: str, own: list[bytes]) -> bytes:
    """The file of a month: the rows of X among those of the others."""
    rng = random.Random(month)
    rows = [
        f"{person},{month},{rng.choice(['yes', 'no'])},{rng.randrange(2)}".encode()
        for person in OTHERS
    ]
    return b"\n".join([b"person,period,work,poverty", *rows[:20], *own, *rows[20:], b""])


def _states(file: Path) -> dict[str, Any]:
    """Of everybody but X, the state in the snapshot of the last close."""
    study, _ = load_study(file)
    with closing(SqliteLog(file.parent / "small.db", readonly=True)) as log:
        entries = journal.read(log)
    last, key = journal.closes(entries)[-1], entries[0].key
    snapshots = Snapshots("small-snapshots", file.parent)
    with snapshots.intact(*last.snapshot) as opened:
        assert opened is not None
        population = Population.load(study, opened)
    decoder = Decoder(study, key)
    hi, lo = decoder.hashes(OTHERS).T
    slots = population.slots(hi, lo)
    assert (slots >= 0).all()
    return {name: column[slots].tolist() for name, column in population.columns.items()}


def truth(folder: Path, rows: Callable[[str], list[bytes]]) -> list[Vector]:
    with recorded() as answers:
        Outcome(folder, rows, Coupled())
    return answers


@pytest.fixture(scope="module")
def first() -> Iterator[tuple[Outcome, list[Vector]]]:
    """The study with sound rows of X, and its noisy answers."""
    with in_memory() as folder:
        true = truth(folder / "true", rows_of_x)
        answers = [m + 2 for m in true]
        yield Outcome(folder / "run", rows_of_x, Coupled(true, answers)), answers


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_person_changes_nothing_for_anybody_else(
    fault: str, folder: Path, first: tuple[Outcome, list[Vector]]
) -> None:
    sound, answers = first
    true = truth(folder / "true", FAULTS[fault])
    assert any(not np.array_equal(a, m + 2) for a, m in zip(answers, true, strict=True))
    other = Outcome(folder / "run", FAULTS[fault], Coupled(true, answers))
    assert sound.codes == other.codes == [0] * 6
    assert sound.states == other.states
    assert sound.public == other.public
