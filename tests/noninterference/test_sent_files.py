"""Change everything about one person in a file: what becomes of nobody else changes, but one swap.

From the file that is sent, through the log and the decoder, to everybody's state at each close.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.examples import SHARED
from kit.panels import LABELS, PERIODS, declaration

from stream_dp.log.sqlite import SqliteLog
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.commands import cli
from stream_dp.study.topics import REPORTS
from stream_dp.studyfile import load_study

OTHERS = [f"{i:04}" for i in range(1, 10)]
LONG = ("note", "person", "period", "poverty", "work")
WIDE = ("note", "person", *LABELS)
X = ["x", "0000042", "42", "42.5", "", "é", "=1", "x" * 300, "a\nb", ' "x" ', "Ω" * 40_000]
odd_texts = st.sampled_from(
    [
        "",
        "0",
        "1",
        "9",
        "1.0",
        "yes",
        "Ja",
        "é",
        '"',
        'a"b',
        "a\nb",
        ",",
        "\0",
        "\ufdd0",
        "x" * 140_000,
    ]
)
periods = st.sampled_from([*LABELS, "2021-01-31", "31.01.2021", "May", "2020-12", "", "202101"])
long_row = st.tuples(odd_texts, st.just(""), periods, odd_texts, odd_texts)
wide_row = st.tuples(odd_texts, st.just(""), *[odd_texts] * PERIODS)
# Of X: rows of cells, of which each may be of another length than the header.
cut = st.sampled_from([None, None, None, 0, 1, 3, 9])


def rows_of_x(row: Any) -> Any:
    """One id in all of X's rows, so that at most one place of the population is X's."""

    def named(id: str, rows: Sequence[tuple[Any, int | None]]) -> list[list[str]]:
        cells = [[id if i == 1 else cell for i, cell in enumerate(row)] for row, _ in rows]
        return [(c + c)[:n] if n is not None else c for c, (_, n) in zip(cells, rows, strict=True)]

    return st.builds(named, st.sampled_from(X), st.lists(st.tuples(row, cut), max_size=4))


def others(wide: bool) -> list[list[str]]:
    rng = np.random.default_rng(1)
    if wide:
        return [["n", p, *(str(v) for v in rng.integers(0, 2, PERIODS))] for p in OTHERS]
    return [
        ["n", p, label, str(rng.integers(3)), ["yes", "no", "maybe"][rng.integers(3)]]
        for p in OTHERS
        for label in LABELS
    ]


def as_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]], encoding: str) -> Path:
    """Rows in quotes where they need some; X's may be in another encoding than the rest."""
    lines = []
    for row in [header, *rows]:
        text = io.StringIO()
        csv.writer(text).writerow(row)
        known = row is header or (len(row) > 1 and row[1] in OTHERS)
        lines.append(text.getvalue().encode("utf-8" if known else encoding, "replace"))
    path = path.with_suffix(".csv")
    path.write_bytes(b"".join(lines))
    return path


def _even(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Rows of as many cells as the header; an empty one is none."""
    return [[(c or None) for c in [*row, *[""] * len(header)][: len(header)]] for row in rows]


def as_parquet(path: Path, header: Sequence[str], rows: Any, encoding: str) -> Path:
    columns = list(zip(*_even(header, rows), strict=True))
    path = path.with_suffix(".parquet")
    table = pa.table({n: pa.array(c, pa.string()) for n, c in zip(header, columns, strict=True)})
    pa.parquet.write_table(table, path, row_group_size=7)
    return path


def as_sheet(path: Path, header: Sequence[str], rows: Any, encoding: str) -> Path:
    book = openpyxl.Workbook()
    for row in [header, *rows]:
        book.active.append([c.replace("\0", "").replace("\ufdd0", "")[:30_000] for c in row])
    book.save(path := path.with_suffix(".xlsx"))
    return path


def states(
    folder: Path, size: int | None, files: Callable[[Path], list[Path]], wide: bool
) -> list[dict[str, Any]]:
    """Everybody's state after each close."""
    folder = folder / uuid4().hex
    folder.mkdir()
    file = folder / "study.toml"
    neighbours = "add_remove" if size is None else "replace_one"
    file.write_text(declaration(neighbours=neighbours, size=size))
    options = ["--attribute", "poverty"] if wide else []
    cli.main(["send", str(file), *map(str, files(folder)), *options])
    study, _ = load_study(file)
    decoder, population = Decoder(study, b"k" * 32), Population(study)
    if (folder / "small.db").exists():
        with closing(SqliteLog(folder / "small.db", readonly=True)) as log:
            for partition, start in log.describe(REPORTS).first.items():
                records = log.read(REPORTS, {partition: start}, 10_000, 0).records
                population.fold(*decoder.decode(records, 0))
    ((hi, lo),) = decoder.hashes(OTHERS)[None].transpose(0, 2, 1)
    closes = []
    for _ in LABELS:
        population.close()
        slots = population.slots(hi, lo)
        closes.append(
            {
                person: None
                if slot < 0
                else {name: int(column[slot]) for name, column in population.columns.items()}
                for person, slot in zip(OTHERS, slots.tolist(), strict=True)
            }
        )
    return closes


def check_others(size: int | None, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    """That nobody else has another state, but for one swap where the population is full."""
    swapped = set()
    for first, second in zip(a, b, strict=True):
        for person in OTHERS:
            if first[person] != second[person]:
                assert first[person] is None or second[person] is None
                swapped.add(person)
    assert len(swapped) <= (size == len(OTHERS))
    assert any(state is not None for state in a[-1].values())


FORMS = {"csv": as_csv, "parquet": as_parquet, "xlsx": as_sheet}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wide", [False, True])
@settings(max_examples=4, deadline=None, suppress_health_check=SHARED)
@given(data=st.data(), size=st.sampled_from([None, len(OTHERS)]))
def test_what_becomes_of_a_row_in_a_file_follows_from_its_own_person(
    folder: Path, form: str, wide: bool, data: st.DataObject, size: int | None
) -> None:
    header, row = (WIDE, wide_row) if wide else (LONG, long_row)
    place = data.draw(st.integers(0, len(others(wide))))
    encoding = data.draw(st.sampled_from(["utf-8", "latin-1"]))

    def written(own: list[list[str]]) -> Callable[[Path], list[Path]]:
        rows = others(wide)
        rows[place:place] = own
        return lambda folder: [FORMS[form](folder / "table", header, rows, encoding)]

    own = rows_of_x(row)
    a = states(folder, size, written(data.draw(own, "one")), wide)
    check_others(size, a, states(folder, size, written(data.draw(own, "other")), wide))


@settings(max_examples=8, deadline=None, suppress_health_check=SHARED)
@given(own=rows_of_x(long_row), last=st.booleans())
def test_a_file_of_one_person_holds_no_other_file_back(
    folder: Path, own: list[list[str]], last: bool
) -> None:
    def files(folder: Path) -> list[Path]:
        both = [as_csv(folder / "x", LONG, own, "utf-8")]
        both.append(as_csv(folder / "others", LONG, others(False), "utf-8"))
        return both if last else both[::-1]

    alone = lambda folder: [as_csv(folder / "others", LONG, others(False), "utf-8")]  # noqa: E731
    check_others(None, states(folder, None, files, False), states(folder, None, alone, False))


def test_one_typing_error_in_a_thousand_rows_costs_one_person(folder: Path) -> None:
    """It cost everybody: the whole file was refused."""
    (folder / "study.toml").write_text(declaration(neighbours="add_remove", size=None))
    rows = [f"p{i},2021-01,{9 if i == 500 else 1}" for i in range(1001)]
    (folder / "t.csv").write_text("\n".join(["person,period,poverty", *rows, ""]))
    assert cli.main(["send", str(folder / "study.toml"), str(folder / "t.csv")]) == 0
    study, _ = load_study(folder / "study.toml")
    with closing(SqliteLog(folder / "small.db", readonly=True)) as log:
        records = [r for p in (0, 1) for r in log.read(REPORTS, {p: 0}, 10_000, 0).records]
    cells, rejected = Decoder(study, bytes(32)).decode(records, 0)
    assert (len(cells), [r.cells for r in rejected]) == (1000, [{"value": 1}])
