"""The cells that prevail: equal to a dictionary's, whatever the hashes, offsets and partitions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.population import cells as cells_module
from stream_dp.population.cells import CLEARED, Cells, WaitingCells, latest_cells
from stream_dp.population.population import FinalCells

# Halves of hashes that several people share.
PEOPLE = [(1, 1), (1, 2), (2, 1), (2**63, 2), (2**64 - 1, 2**64 - 1), (2**64 - 1, 0)]
# Between records; at 0 a record has reports of several people, like a change that moves a row.
SPACINGS = [0, 1, 40, 10**9]
reports = st.lists(
    st.tuples(
        st.sampled_from(PEOPLE),
        st.integers(1, 2),  # period
        st.dictionaries(st.integers(0, 2), st.integers(CLEARED, 3), min_size=1),
        st.integers(0, 2),  # partition
    ),
    max_size=30,
)


def arranged(reports, spacing):
    """Cells in order of precedence: by partition and offset."""
    rows, offset = [], 0
    for person, period, values, partition in sorted(reports, key=lambda one: one[3]):
        offset += spacing
        rows += [(*person, period, a, code, partition, offset) for a, code in values.items()]
    columns = list(zip(*rows, strict=True)) or [()] * 7
    kinds = [column.dtype for column in cells_module.EMPTY.columns()]
    return Cells(*(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))


def last_codes(cells):
    """By person, period and attribute."""
    columns = [column.tolist() for column in cells.columns()[:5]]
    return {(hi, lo, p, a): code for hi, lo, p, a, code in zip(*columns, strict=True)}


@settings(max_examples=200, deadline=None)
@given(reports, st.sampled_from(SPACINGS))
def test_the_last_cells_are_those_of_a_dictionary(reports, spacing):
    cells = arranged(reports, spacing)
    merged = latest_cells(cells)
    assert last_codes(merged) == last_codes(cells)
    assert len(merged) == len(last_codes(cells))
    for period in (1, 2):
        due = cells.take(cells.period == period)
        final, expected = FinalCells.of(due), last_codes(due)
        people = list(zip(final.hi.tolist(), final.lo.tolist(), strict=True))
        assert people == sorted({key[:2] for key in expected})
        found = {}
        for attribute, column in final.columns.items():
            for person, code, row in zip(column.people, column.code, column.rows, strict=True):
                found[(*people[person], period, attribute)] = int(code)
                assert due.code[row] == code
        assert found == expected
        coded = {key[:2] for key, code in expected.items() if code != CLEARED}
        assert [p for p, is_coded in zip(people, final.coded(), strict=True) if is_coded] == (
            sorted(coded)
        )


def batch(rng, people, start):
    """A cell of each person, by random hashes of `rng`."""
    hashes = rng.permutation(people)
    count = len(hashes)
    return Cells(
        hi=hashes,
        lo=hashes,
        period=np.ones(count, np.uint16),
        attribute=np.zeros(count, np.uint16),
        code=np.zeros(count, np.int16),
        partition=np.zeros(count, np.uint16),
        offset=start + np.arange(count),
    )


def test_cells_are_merged_only_where_many_repeat(monkeypatch):
    monkeypatch.setattr(cells_module, "_COMPACT", 1000)
    merged = []
    monkeypatch.setattr(
        cells_module, "latest_cells", lambda cells: merged.append(len(cells)) or latest_cells(cells)
    )
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64, 64_000, dtype=np.uint64)
    once = WaitingCells()
    for start in range(0, 64_000, 500):
        once.add(batch(rng, hashes[start : start + 500], start))
    assert not merged
    assert len(once.all()) == 64_000
    again = WaitingCells()
    for start in range(0, 64_000, 500):
        again.add(batch(rng, hashes[:500], start))
        assert sum(again._counts.values()) <= 3000
    assert merged


def test_the_merge_does_not_depend_on_the_batches(monkeypatch):
    monkeypatch.setattr(cells_module, "_COMPACT", 300)
    rng = np.random.default_rng(2)
    people = rng.integers(0, 2**64, 120, dtype=np.uint64)
    cells = Cells.joined([batch(rng, people, 120 * i) for i in range(40)])
    states = []
    for size in (1, 7, 1000, len(cells)):
        waiting = WaitingCells()
        for start in range(0, len(cells), size):
            waiting.add(cells.take(slice(start, start + size)))
        states.append([column.tolist() for column in waiting.all().columns()])
    assert all(state == states[0] for state in states)


def test_small_batches_make_few_arrays():
    """They are joined by eight, and a large chunk is left as it is."""
    rng = np.random.default_rng(3)
    cells = batch(rng, rng.integers(0, 2**64, 9000, dtype=np.uint64), 0)
    waiting = WaitingCells()
    waiting.add(cells.take(slice(0, 3000)))
    for row in range(3000, 9000):
        waiting.add(cells.take(slice(row, row + 1)))
    (chunks,) = waiting._chunks.values()
    assert len(chunks) < 30
    assert len(chunks[0]) == 3000
    columns = zip(waiting.all().columns(), cells.columns(), strict=True)
    assert all(np.array_equal(*pair) for pair in columns)
