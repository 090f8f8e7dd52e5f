"""Dead letters of many records: what they say, and what they take."""

from __future__ import annotations

import msgspec
import pytest

from stream_dp.log.log import MAX_RECORD
from stream_dp.log.records import RecordColumns, Records
from stream_dp.log.sqlite import SqliteLog
from stream_dp.log.sqlite_file import SqliteRows
from stream_dp.population.cells import REASONS, RejectedRecord
from stream_dp.services.intake.dead_letters import SOURCE, cells_of, refuse_records
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

REPORT = b'{"person":"p%07d","period":"2021-01","values":{"work":7}}'


@pytest.fixture
def log(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    log.create({REPORTS: 1, DEAD_LETTERS: 1})
    yield log
    log.close()


def send(log, count, headers):
    keys = [b"p%07d" % i for i in range(count)]
    log.append(RecordColumns(REPORTS, keys, [REPORT % i for i in range(count)], headers))


def read(log, topic):
    return Records.of(log.read(topic, {0: 0}, 10_000, 0).records)


def stored_bytes(log):
    (count, size) = (
        log._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return count * size


def test_letters_say_where_their_records_are_and_why(log):
    send(log, 2, ((SOURCE, b"a.csv"),))
    send(log, 1, ((SOURCE, b"b.csv"), ("note", b"x")))
    log.append(RecordColumns(REPORTS, [b"q"], [bytes(MAX_RECORD - 50)]))
    records = read(log, REPORTS)
    reasons = [{"late": 2}, {"value": 1, "late": 1}, {"late": 2}, {"late": 2}]
    refuse_records(log, records, [RejectedRecord(i, cells) for i, cells in enumerate(reasons)])
    letters = sorted(read(log, DEAD_LETTERS), key=lambda letter: letter.key)
    assert [letter.key for letter in letters] == [b"reports/0/%d" % i for i in range(4)]
    for row, (letter, cells) in enumerate(zip(letters, reasons, strict=True)):
        assert letter.value == records[row].value[: len(letter.value)]
        assert cells_of(letter) == cells
        assert letter.header(SOURCE) == [b"a.csv", b"a.csv", b"b.csv", b""][row]
        assert letter.header("__connect.errors.topic") == REPORTS.encode()
        assert letter.header("__connect.errors.partition") == b"0"
        assert letter.header("__connect.errors.offset") == b"%d" % row
        text = letter.header("__connect.errors.exception.message").decode()
        assert text == "; ".join(REASONS[reason] for reason in sorted(cells))
    assert len(letters[0].value) == len(records[0].value)


def test_a_letter_takes_at_most_twice_the_bytes_of_its_report(log):
    count, begin = 4000, stored_bytes(log)
    send(log, count, ((SOURCE, b"reports.csv"),))
    middle = stored_bytes(log)
    rejected = [RejectedRecord(row, {"unreadable": 1}) for row in range(count)]
    refuse_records(log, read(log, REPORTS), rejected)
    assert stored_bytes(log) - middle <= 1.5 * (middle - begin)


def test_a_copy_of_the_rows_has_whole_headers(log, tmp_path):
    send(log, 3, ())
    refuse_records(log, read(log, REPORTS), [RejectedRecord(i, {"late": 1}) for i in range(3)])
    rows = SqliteRows(tmp_path / "log.db")
    copied = [row.headers for row in rows.rows(DEAD_LETTERS, 0, 0)]
    rows.close()
    assert [dict(log._decoded(raw)) for raw in copied] == [
        dict(letter.headers) for letter in read(log, DEAD_LETTERS)
    ]


def test_headers_of_a_damaged_file_are_unreadable(log):
    send(log, 1, ((SOURCE, b"a.csv"),))
    refuse_records(log, read(log, REPORTS), [RejectedRecord(0, {"late": 1})])
    huge = msgspec.msgpack.encode([2**64 - 1, b"x"])
    damaged = [b"\x93\x02\xa1a", b"\x92\x63\xa1a", b"\x91\xc4\x01a", b"\x92\x01\xc4\x01a"]
    for raw in (*damaged, huge, 99):
        assert log._decoded(raw) is None
