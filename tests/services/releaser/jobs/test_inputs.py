"""What jobs look at: the rows of a closed period, in an order and in bytes of their own."""

from __future__ import annotations

import io
import tomllib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.parts_of_tables import TEXTS, said

from stream_dp.batch.people.people_table import present_rows
from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored
from stream_dp.population.population import Population, slots_by_hash, symbols_of
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.intake.group_tables import Members
from stream_dp.services.releaser import table_results as job_inputs
from stream_dp.services.releaser.household_jobs import joined_tables
from stream_dp.services.releaser.job_families import everybodys_tables
from stream_dp.services.releaser.table_results import save_tables
from stream_dp.study import PeopleRelease
from stream_dp.studyfile import parse_study


@pytest.mark.parametrize("name", ["sized", "sized, too small", "open"])
def test_the_rows_of_a_closed_period_ordered_by_hash(name: str) -> None:
    study = parse_study(tomllib.loads(TEXTS[name], parse_float=Decimal))
    decoder, population = Decoder(study, bytes(32)), Population(study)
    for number in (1, 2, 3):
        stored = [
            Stored(
                partition=0, offset=1000 * number + i, time=0, key=None, value=r.value, headers=()
            )
            for i, r in enumerate(said(number))
        ]
        population.fold(*decoder.decode(stored, number - 1))
        closed = population.close()
        symbols = symbols_of(population)
        assert symbols.keys() == closed.symbols.keys()
        assert all(np.array_equal(symbols[n], codes) for n, codes in closed.symbols.items())
    order = slots_by_hash(population)
    assert sorted(order.tolist()) == list(range(study.size or population.people))
    known = population.index
    hashes = dict(zip(known.slot.tolist(), known.hi.tolist(), strict=True))
    people = [hashes[s] for s in order.tolist() if s in hashes]
    assert people == sorted(people)
    for release in study.batches or ():
        assert isinstance(release, PeopleRelease)
        (table,) = everybodys_tables(study, release, population, None)["people"]
        rows = np.stack([column.to_numpy() for column in table.columns], axis=1)
        expected = present_rows(study, release, closed.symbols)
        assert sorted(rows.tolist()) == sorted(expected.tolist())


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_the_bytes_of_a_file_depend_on_its_rows_alone(sizes: list[int]) -> None:
    rows = pa.table({"a": pa.array(np.arange(sum(sizes)) % 3, pa.uint16())})
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    files = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_inputs, "GROUP_OF_ROWS", 4)
        for tables in ([rows], [rows.slice(s, n) for s, n in zip(starts, sizes, strict=True)]):
            files.append(file := io.BytesIO())
            save_tables(tables, file)
    assert files[0].getvalue() == files[1].getvalue()
    assert pyarrow.parquet.read_table(files[0]).equals(rows.combine_chunks())
    groups = pyarrow.parquet.ParquetFile(files[0]).num_row_groups
    assert groups == -(-rows.num_rows // 4)


def test_a_member_in_no_part_is_missed() -> None:
    study = parse_study(tomllib.loads(TEXTS["groups"], parse_float=Decimal))
    (release,) = study.batches or ()
    none = np.zeros(0, np.int64)
    members = Members(np.zeros((1, 2), np.uint16), none, np.zeros(2, np.int64))
    part = pa.table({"row": pa.array([1]), "income": pa.array([0]), "work": pa.array([1])})
    with pytest.raises(Inconsistent, match="has no place"):
        joined_tables(study, release, [part], members, None, 0)
