"""The bars of data sets: every size is in one, and every bin of a range that is cut by default."""

from __future__ import annotations

import itertools
import tomllib

import pyarrow as pa
import pytest

import stream_dp
from stream_dp.services.desk.declared_columns import DeclaredColumn
from stream_dp.services.monitor.groups_figures import _name, _ranges, data_set_figures

STUDY = """[study]
name = "s"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
population.size = 500
periods = { every = "month", first = "2026-01", count = 1 }
[attributes.age]
missing = "absent"
number = { least = 0, most = %d }
bins = %s
[attributes.sex]
values = ["f", "m"]
missing = "absent"
[[releases]]
name = "people"
kind = "table"
share = 1.0
every = 1
attributes = ["age", "sex"]
"""


@pytest.mark.parametrize("largest", [0, 1, 2, 11, 12, 13, 100, 1023, 1024, 1025, 10**6, 1 << 31])
def test_every_size_is_in_one_bar(largest: int) -> None:
    ranges = _ranges(largest)
    assert 1 <= len(ranges) <= 12
    assert ranges[0][0] == 0
    assert ranges[-1][1] >= largest
    assert all(last + 1 == first for (_, last), (first, _) in itertools.pairwise(ranges))
    names = [_name(first, last, ranges[-1][1]) for first, last in ranges]
    assert len({*names}) == len(names)


def test_names_are_sizes_or_ranges() -> None:
    ranges = _ranges(40)
    names = [_name(first, last, ranges[-1][1]) for first, last in ranges]
    assert names == ["0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33 or more"]


@pytest.mark.parametrize("most", [64, 97, 999])
def test_bins_that_a_range_has_by_default_are_bars_with_intervals(most: int) -> None:
    edges = [*DeclaredColumn.of("age", range(most + 1)).edges]
    study = stream_dp.parse_study(tomllib.loads(STUDY % (most, edges)))
    people = {"person": [*map(str, range(500))], "age": [i % (most + 1) for i in range(500)]}
    public = stream_dp.run_study(
        study, pa.table(people | {"period": ["2026-01"] * 500, "sex": ["f", "m"] * 250})
    )
    marginal, _ = data_set_figures(public, "people", None).marginals
    assert len(marginal.bars) == len(edges) + 2  # the last bin, and absent
    assert all(bar.low is not None for bar in marginal.bars)
