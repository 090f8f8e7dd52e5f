"""One row of a file never changes how another row is sent: the records of `send`, byte by byte."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.population import table_bounds
from stream_dp.population.tables import TableLayout, text_files
from stream_dp.services.intake.sending import encoded_reports
from stream_dp.studyfile import parse_study

STUDY = parse_study(
    {
        "study": {
            "name": "sent",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": 1,
            "delta": "1/1000000",
            "periods": {"first": "2021", "every": "year", "count": 3},
            "population": {"size": 10},
        },
        "attributes": {
            "poverty": {"values": [0, 1], "missing": 0},
            "work": {"values": ["no", "half day"], "missing": "absent"},
        },
        "releases": [{"name": "w", "kind": "window", "attribute": "poverty", "width": 1, "rho": 1}],
    }
)
PERIODS = ("2021", "2022", "2023")
LONG, WIDE = TableLayout(), TableLayout(attribute="poverty")

# What a table of people has, and what one row of it may have instead.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=5)
ids = st.sampled_from(["007", "7", "ann", " ann", 'a"b', "a,b", "ünï", "1e3", "NaN", ""]) | texts
numbers = st.sampled_from([0, 1, None, math.nan, 0.5, -0.0, 1e16, 1e300, math.inf, 2**53 - 1])
odd_texts = st.sampled_from(["", "no", "half day", " no", "1.0", '"', ",", "null", "NaN"]) | texts
years = st.sampled_from([2021, 2022, 2023, 2024, None, 2021.5, math.nan])
notes = st.text(st.sampled_from('a,"\n'), max_size=30)


class Form:
    """A kind of file: rows as a strategy, how they are written, and their layout."""

    def __init__(self, row: Any, write: Any, layout: TableLayout) -> None:
        self.row, self.write, self.layout = row, write, layout


def as_pandas(cells: Sequence[Any]) -> pa.Array:
    """The column that pandas writes: one missing or fractional number makes all of it floats."""
    if all(isinstance(c, int) for c in cells):
        return pa.array(cells, pa.int64())
    return pa.array([math.nan if c is None else float(c) for c in cells])


def _csv(header: Sequence[str], quoting: Any) -> Any:
    def write(folder: Path, rows: Sequence[Sequence[Any]]) -> Path:
        path = folder / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=quoting, lineterminator="\n")
            writer.writerows([header, *rows])
        return path

    return write


def _parquet(header: Sequence[str], kinds: Sequence[Any]) -> Any:
    def write(folder: Path, rows: Sequence[Sequence[Any]]) -> Path:
        path = folder / "table.parquet"
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
        arrays = [kind(list(column)) for kind, column in zip(kinds, columns, strict=True)]
        pa.parquet.write_table(pa.table(arrays, names=list(header)), path, row_group_size=3)
        return path

    return write


def _text(kind: pa.DataType) -> Any:
    return lambda cells: pa.array(cells, kind)


def _category(cells: Sequence[Any]) -> pa.Array:
    return pa.array(cells, pa.string()).dictionary_encode()


# Ids of more digits are lost where pandas has made floats of a column, before a file is here.
integers = st.integers(0, 2**53 - 1)
LONG_HEADER = ("person", "period", "poverty", "work", "note")
WIDE_HEADER = ("person", *PERIODS, "note")
long_csv = st.tuples(ids, st.sampled_from([*PERIODS, "", "x"]), odd_texts, odd_texts, notes)
wide_csv = st.tuples(ids, odd_texts, odd_texts, odd_texts, notes)
long_rows = st.tuples(ids | st.none(), years, numbers, odd_texts | st.none(), notes)
wide_rows = st.tuples(ids | st.none(), numbers, numbers, numbers, notes)
number_rows = st.tuples(integers | st.sampled_from([None, 0.5, 1e300]), numbers, numbers, numbers)
mixed = (as_pandas, as_pandas, as_pandas, as_pandas)
FORMS = {
    "long csv": Form(long_csv, _csv(LONG_HEADER, csv.QUOTE_MINIMAL), LONG),
    "long quoted csv": Form(long_csv, _csv(LONG_HEADER, csv.QUOTE_ALL), LONG),
    "wide csv": Form(wide_csv, _csv(WIDE_HEADER, csv.QUOTE_MINIMAL), WIDE),
    "wide quoted csv": Form(wide_csv, _csv(WIDE_HEADER, csv.QUOTE_ALL), WIDE),
    "long parquet": Form(
        long_rows,
        _parquet(
            LONG_HEADER,
            (_text(pa.string()), as_pandas, as_pandas, _category, _text(pa.large_string())),
        ),
        LONG,
    ),
    "wide parquet": Form(
        wide_rows,
        _parquet(WIDE_HEADER, (_category, as_pandas, as_pandas, as_pandas, _category)),
        WIDE,
    ),
    "wide parquet of numbers": Form(number_rows, _parquet(WIDE_HEADER[:4], mixed), WIDE),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place for tables that are read a few rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_bounds, "PARQUET_ROWS", 2)
        patch.setattr(text_files, "CSV_CHARACTERS", 256)
        yield tmp_path_factory.mktemp("tables")


def sent(folder: Path, form: Form, rows: Sequence[Sequence[Any]]) -> Counter[tuple[str, bytes]]:
    path = form.write(folder, rows)
    return Counter(
        record
        for batch in encoded_reports(path, STUDY, form.layout, quiet=True)
        for record in batch
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_row_changes_no_other_row(folder: Path, form: Form, data: st.DataObject) -> None:
    """Another row in a place, or none: what the other rows send is the same."""
    others = data.draw(st.lists(form.row, max_size=12), "others")
    place = data.draw(st.integers(0, len(others)), "place")
    records = []
    for row in data.draw(st.lists(form.row, min_size=2, max_size=3, unique_by=repr), "row"):
        together = sent(folder, form, [*others[:place], row, *others[place:]])
        alone = sent(folder, form, [row])
        assert alone <= together
        records.append(together - alone)
    records.append(sent(folder, form, others))
    assert all(record == records[0] for record in records)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("odd", [[1e300, 0.5], [math.inf, None], [2**53 - 1, math.nan]])
def test_a_value_with_a_fraction_leaves_others_integers(
    folder: Path, wide: bool, odd: list[Any]
) -> None:
    """One odd value made every other one of its column, 1 and 0 too, a float's text."""
    form = FORMS["wide parquet" if wide else "long parquet"]
    rows = [(f"p{i}", *([i % 2] * 3), "") for i in range(20)]
    if not wide:
        rows = [(f"p{i}", 2021, 12_345_678 + i % 2, "no", "") for i in range(20)]
    row = ("odd", odd[0], odd[1], odd[0], "") if wide else ("odd", odd[1], odd[0], "no", "")
    both = sent(folder, form, [*rows, row])
    assert sent(folder, form, rows) == both - sent(folder, form, [row])
    assert sum(both.values()) > 20
