"""The bars of charts of sizes: every size is in one of them, and there are few."""

from __future__ import annotations

import itertools

import pytest

from stream_dp.services.monitor.groups_figures import _name, _ranges


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
