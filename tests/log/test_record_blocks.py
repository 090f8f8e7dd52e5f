"""Blocks of records in the rows of an SQLite file."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from contents import drain, sent

from stream_dp.log.log import LogError
from stream_dp.log.records import RecordColumns, decode_block, encode_blocks
from stream_dp.log.sqlite import SqliteLog
from stream_dp.log.sqlite_file import SqliteRows

VALUES = [None if i % 7 == 0 else bytes(i % 5) + b"%d" % i for i in range(20_000)]
KEYS = [b"k%d" % (i % 11) if i % 3 else b"" for i in range(20_000)]
SENT = RecordColumns("t", KEYS, VALUES, (("source", b"t.csv"),))
OWN = replace(SENT, varying={"row": [b"%d" % i for i in range(20_000)]})


@pytest.fixture
def log(tmp_path):
    with closing(SqliteLog(tmp_path / "log.db", clock=lambda: 5.0)) as log:
        log.create({"t": 1})
        yield log


def rows(log):
    return log._db.execute("SELECT count(*) FROM records").fetchone()[0]


def test_blocks_hold_their_columns():
    columns = [KEYS, VALUES, [b"h%d" % i for i in range(20_000)]]
    decoded = [decode_block(*block) for block in encode_blocks(columns)]
    assert len(decoded) > 3
    for number, column in enumerate(columns):
        assert [string for block in decoded for string in block[number]] == column
    assert list(encode_blocks([[], []])) == []
    for width, most in ((2, 8192), (3, 5462)):
        counts = [count for count, _ in encode_blocks([[b""] * 20_000] * width)]
        assert max(counts) == most


@pytest.mark.parametrize(("width", "most"), [(2, 8192), (3, 5462)])
def test_no_block_has_more_records_than_are_written(width, most):
    assert decode_block(most, bytes([width]) + bytes(4 * width * most)) is not None
    assert decode_block(most + 1, bytes([width]) + bytes(4 * width * (most + 1))) is None


@pytest.mark.parametrize("columns", [SENT, OWN])
def test_records_in_columns_take_few_rows_and_are_read_from_any_offset(log, columns):
    log.append(sent("t", b"first"))
    log.append(columns)
    log.append(sent("t", b"last"))
    assert rows(log) < 30
    expected = [(b"t.csv", value) for value in VALUES]
    whole, after = drain(log, "t", limit=7_001)
    assert after == {0: 20_002}
    assert [(r.header("source"), r.value) for r in whole[1:-1]] == expected
    assert [r.offset for r in whole] == list(range(20_002))
    assert {r.time for r in whole} == {5000}
    for first in np.random.default_rng(1).integers(0, 20_002, 20).tolist():
        batch = log.read("t", {0: first}, 300, 0)
        assert list(batch.records) == whole[first : first + 300]
        assert batch.next == {0: min(first + 300, 20_002)}


def test_a_read_ends_inside_a_block_at_its_limit_of_bytes(log):
    log.append(RecordColumns("t", [b"k"] * 40, [bytes(900_000)] * 40))
    records, _ = drain(log, "t")
    assert [r.offset for r in records] == list(range(40))
    assert len(log.read("t", {0: 0}, 40, 0).records) < 20


def test_records_with_headers_of_their_own_are_decoded_few_at_a_time(log):
    """A file from elsewhere may name shared headers of a megabyte in each of its records."""
    log.append(OWN)
    pieces = [piece for first in (0, 77) for piece in log._stored("t", 0, first, 20_000)]
    assert max(len(piece[0]) for piece in pieces) <= 64
    assert sum(len(piece[0]) for piece in pieces) == 40_000 - 77


def test_offsets_are_whole_numbers_up_to_the_largest(log):
    log.append(RecordColumns("t", KEYS[:50], VALUES[:50]))
    log._db.execute("UPDATE records SET offset = ?", (2**63 - 1,))
    records = log.read("t", {0: 0}, 100, 0).records
    assert [r.offset for r in records] == list(range(2**63 - 50, 2**63))


def test_the_first_offset_and_the_cut_are_those_of_records(tmp_path, log):
    log.append(sent("t", b"first"))
    log._clock = lambda: 6.0
    log.append(SENT)
    assert log.cut("t", 5.5) == {0: 1}
    log._db.execute("DELETE FROM records WHERE offset = 0")
    assert log.describe("t").first == {0: 1}
    with closing(SqliteRows(tmp_path / "log.db")) as source:
        assert source.first("t", 0) == 1


@pytest.mark.parametrize("columns", [SENT, OWN])
def test_a_copy_has_a_row_for_each_record(tmp_path, log, columns):
    log.append(columns)
    whole, _ = drain(log, "t")
    with closing(SqliteRows(tmp_path / "log.db")) as source:
        copied = list(source.rows("t", 0, 123))
    assert [row[:4] for row in copied] == [(r.offset, r.time, r.key, r.value) for r in whole[123:]]


def test_an_encrypted_file_has_no_blocks(tmp_path, log):
    """A block has no seal, so it must not pass for sealed records."""
    from stream_dp.log.sealing import Keyring

    keys = Keyring([bytes(32)])
    with closing(SqliteLog(tmp_path / "sealed.db", keys=keys)) as sealed:
        sealed.create({"t": 1})
        sealed.append(SENT)
        assert rows(sealed) == 20_000
        log.append(SENT)
        row = log._db.execute("SELECT * FROM records WHERE offset > 19999 OR 1 LIMIT 1").fetchone()
        sealed._db.execute("DELETE FROM records")
        sealed._db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        with pytest.raises(LogError):
            sealed.read("t", {0: 0}, 10, 0)


DAMAGES = {
    "more records": "key = key + 1",
    "fewer records": "key = key - 1",
    "no records": "key = 0",
    "records below zero": "key = -5",
    "far too many": "key = 9223372036854775807",
    "no content": "value = NULL",
    "an empty content": "value = x''",
    "other columns": "value = CAST(x'09' || substr(value, 2) AS BLOB)",
    "cut short": "value = CAST(substr(value, 1, length(value) - 1) AS BLOB)",
    "longer": "value = CAST(value || x'00' AS BLOB)",
    "a length below null": "value = CAST(x'02FEFFFFFF' || substr(value, 6) AS BLOB)",
    "a large length": "value = CAST(x'02FFFFFF7F' || substr(value, 6) AS BLOB)",
    "text": "value = 'text'",
    "a number": "value = 7",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_block_is_refused(tmp_path, log, damage):
    log.append(RecordColumns("t", KEYS[:50], VALUES[:50]))
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as db:
        db.execute(f"UPDATE records SET {damage}")
    with pytest.raises(LogError, match="not one of stream-dp"):
        log.read("t", {0: 0}, 100, 0)
    rows = SqliteRows(tmp_path / "log.db")
    with closing(rows), pytest.raises(LogError, match="not one of stream-dp"):
        list(rows.rows("t", 0, 0))


def test_blocks_that_overlap_give_no_offset_twice(tmp_path, log):
    log.append(RecordColumns("t", KEYS[:50], VALUES[:50]))
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as db:
        db.execute(
            "INSERT INTO records SELECT topic, partition, offset + 10, time, key, value,"
            " headers FROM records"
        )
    records, _ = drain(log, "t")
    assert [r.offset for r in records] == list(range(60))
