"""Columns of byte strings: the same whatever pieces they came in."""

import subprocess
import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.log.log import Stored
from stream_dp.log.records import Records, Texts, packed

COLUMN = st.lists(st.none() | st.binary(max_size=3) | st.just(b"x" * 300), max_size=8)
PIECES = st.lists(st.tuples(COLUMN, st.sampled_from(["list", "tuple", "array", "texts"])))
WAYS = {
    "list": list,
    "tuple": tuple,
    "array": lambda column: packed(column)[0],
    "texts": lambda column: texts([(column, "array"), (column, "list")]),
}


def texts(pieces):
    joined = Texts()
    for column, way in pieces:
        joined.extend(WAYS[way](column))
    return joined


def plain(pieces):
    return [one for column, way in pieces for one in column * (1 + (way == "texts"))]


@given(PIECES, PIECES)
def test_they_are_as_a_list(pieces, further):
    column = texts(pieces)
    for more in ([], further):
        for piece, way in more:
            column.extend(WAYS[way](piece))
        wanted = plain(pieces + more)
        assert len(column) == len(wanted)
        assert column.array() == pa.array(wanted, pa.large_binary())
        assert column.lengths().tolist() == [len(one or b"") for one in wanted]
        assert column.nulls() == [place for place, one in enumerate(wanted) if one is None]
        assert column.objects() == list(column) == wanted == column[:]
        assert [column[place] for place in range(-len(wanted), 0)] == wanted


@given(COLUMN, st.sampled_from(list(WAYS)))
def test_what_was_added_is_not_changed_by_what_comes_behind(column, way):
    more, joined = WAYS[way](column), Texts()
    before = list(more) if way != "array" else more.to_pylist()
    joined.extend(more)
    joined.extend([b"behind"])
    assert (list(more) if way != "array" else more.to_pylist()) == before
    assert list(joined) == [*before, b"behind"]


@given(COLUMN)
def test_their_bytes_are_counted(column):
    array, size = packed(column)
    assert array.to_pylist() == column
    assert size == sum(len(one or b"") for one in column)


@given(st.lists(st.tuples(st.integers(0, 2), COLUMN), max_size=4), st.integers(0, 9))
def test_records_are_the_same_from_tuples_and_from_columns(batches, end):
    tuples, columns, offset = [], Records(), 0
    for part, values in batches:
        keys, count = values[::-1], len(values)
        offsets = range(offset, offset + count)
        columns.add(
            [part] * count, offsets, offsets, packed(keys)[0], packed(values)[0], [()] * count
        )
        tuples += [
            Stored(part, at, at, k, v, ()) for at, k, v in zip(offsets, keys, values, strict=True)
        ]
        offset += count
    ends = dict.fromkeys(range(3), end)
    for some in (columns, Records.of(tuples)):
        assert some == tuples
        assert some.below(ends) == [r for r in tuples if r.offset < end]
        assert some.beyond(1, end) == [r for r in tuples if r.partition == 1 and r.offset >= end]
        assert some.empty() == [n for n, r in enumerate(tuples) if r.value is None]
        assert [some[place] for place in range(len(tuples))] == tuples
        assert some[1:] == tuples[1:]


def test_small_columns_become_arrays_without_pandas():
    code = (
        "import sys; from stream_dp.log.records import binary_array\n"
        "for column in ([], [b''], [b'a', b'', b'\\xff\\x00']):\n"
        "    array = binary_array(column); array.validate(full=True)\n"
        "    assert array.to_pylist() == column and str(array.type) == 'large_binary'\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
