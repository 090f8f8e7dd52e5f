"""Encrypted logs: the contract, and what a disk shows and a wrong key opens."""

import sqlite3
from contextlib import closing

import pytest
from contents import drain, sent, values
from contract import LogContract

from stream_dp.errors import UserError
from stream_dp.log.log import SEALED, LogError, Record
from stream_dp.log.memory import MemoryLog
from stream_dp.log.sealing import Keyring, SealedLog
from stream_dp.log.sqlite import SqliteLog

pytest.importorskip("cryptography")

OLD, NEW, OTHER = (f"{number:064x}" for number in (1, 2, 3))
KEYS, RING, STRANGE = (Keyring.of_text(text) for text in (OLD, f"{NEW}\n{OLD}\n", OTHER))
RECORD = Record("t", b"income 7000", b"Ada-Key", (("Head", b"Lovelace"),), partition=0, time=5)


class TestSealedFile(LogContract):
    @pytest.fixture
    def opener(self, tmp_path):
        logs = []

        def opened():
            logs.append(SqliteLog(tmp_path / "log.db", keys=KEYS))
            return logs[-1]

        yield opened
        for log in logs:
            log.close()


class TestSealedTopics(LogContract):
    @pytest.fixture
    def opener(self):
        log = MemoryLog()
        return lambda: SealedLog(log, KEYS, ())


@pytest.fixture
def path(tmp_path):
    with closing(SqliteLog(tmp_path / "log.db", keys=KEYS)) as log:
        log.create({"t": 2, "u": 1})
        log.append([RECORD, *sent("t", b"a", b"b", partition=0, time=5)])
    return tmp_path / "log.db"


def read(path, keys):
    with closing(SqliteLog(path, keys=keys, readonly=True)) as log:
        return [(r.key, r.value, r.headers) for r in drain(log, "t")[0]]


def test_the_file_shows_nothing_of_a_record(path):
    (first, *_) = read(path, KEYS)
    assert first == (b"Ada-Key", b"income 7000", (("Head", b"Lovelace"),))
    for file in path.parent.iterdir():
        data = file.read_bytes()
        assert not any(secret in data for secret in (b"Ada-Key", b"income", b"Head", b"Lovelace"))


@pytest.mark.parametrize("keys", [STRANGE, None, Keyring.of_text(NEW)])
def test_another_key_or_none_reads_and_writes_nothing(path, keys):
    for readonly in (True, False):
        with pytest.raises(LogError, match=r"run\.encryption") as refused:
            SqliteLog(path, keys=keys, readonly=readonly)
        assert "\n" not in str(refused.value)
        assert not any(text in str(refused.value) for text in (OLD, NEW, OTHER))


def test_a_log_that_began_without_encryption_takes_no_key(tmp_path):
    SqliteLog(tmp_path / "log.db").close()
    with pytest.raises(LogError, match="begun without encryption"):
        SqliteLog(tmp_path / "log.db", keys=KEYS)


def test_a_new_key_writes_and_the_old_one_still_reads(path):
    with closing(SqliteLog(path, keys=RING)) as log:
        log.append(sent("t", b"new", partition=0))
        assert values(log, "t") == [b"income 7000", b"a", b"b", b"new"]
    with closing(SqliteLog(path, keys=KEYS)) as log:  # the old one alone
        assert [r.value for r in log.read("t", {0: 0}, 3, 0).records][1:] == [b"a", b"b"]
        with pytest.raises(LogError, match=r"record 3 .* key that run\.encryption does not have"):
            values(log, "t")


CHANGES = {
    "two records swapped": "UPDATE records SET offset = CASE offset WHEN 1 THEN 2 ELSE 1 END"
    " WHERE offset IN (1, 2)",
    "another partition": "UPDATE records SET partition = 1 WHERE offset = 2",
    "another topic": "UPDATE records SET topic = 'u' WHERE offset = 2",
    "another time": "UPDATE records SET time = 6 WHERE offset = 2",
    "another position": "UPDATE records SET offset = 3 WHERE offset = 2",
    "a bit": "UPDATE records SET value = CAST(substr(value, 1, length(value) - 1) || x'00' AS BLOB)"
    " WHERE offset = 2",
    "cut short": "UPDATE records SET value = substr(value, 1, 30) WHERE offset = 2",
    "a plain record": "UPDATE records SET value = x'61' WHERE offset = 2",
    "no value": "UPDATE records SET value = NULL WHERE offset = 2",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_opens_only_where_it_was_written(change, path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TEMP TABLE copy AS SELECT * FROM records")
        db.execute(f"{CHANGES[change]}".replace("records SET", "copy SET"))
        db.execute("DELETE FROM records")
        db.execute("INSERT INTO records SELECT * FROM copy")
    with closing(SqliteLog(path, keys=KEYS)) as log:
        with pytest.raises(LogError, match=r"record [123] of topic|ends before"):
            values(log, "t"), values(log, "u")


def test_a_record_of_another_file_does_not_open(path, tmp_path):
    with closing(SqliteLog(tmp_path / "other.db", keys=KEYS)) as log:
        log.create({"t": 2})
    with closing(sqlite3.connect(tmp_path / "other.db")) as db, db:
        db.execute("ATTACH ? AS first", (str(path),))
        db.execute("INSERT INTO records SELECT * FROM first.records")
    with pytest.raises(LogError, match="is not what was written there"):
        read(tmp_path / "other.db", KEYS)


# Topics of a cluster


def topics(keys, unsealed=()):
    inner = MemoryLog()
    inner.create({"t": 1, "free": 1})
    return inner, SealedLog(inner, keys, unsealed)


def test_the_cluster_sees_nothing_but_of_topics_that_others_write_to():
    inner, log = topics(KEYS, ["free"])
    log.append([RECORD, Record("free", b"plain", b"key")])
    (stored,) = drain(inner, "t")[0]
    assert stored.headers == SEALED
    shown = (stored.key or b"") + (stored.value or b"")
    assert not any(secret in shown for secret in (b"Ada-Key", b"income", b"Head", b"Lovelace"))
    (opened,) = drain(log, "t")[0]
    assert (opened.key, opened.value, opened.headers) == (
        RECORD.key,
        RECORD.value,
        RECORD.headers,
    )
    assert values(inner, "free") == values(log, "free") == [b"plain"]


def moved(inner, topic, partition=0):
    """Writes the sealed record of a log to another place, as the cluster's operator could."""
    (stored,) = drain(inner, "t")[0]
    moved_to = MemoryLog() if topic == "t" and partition == 0 else inner
    if moved_to is not inner:
        moved_to.create({"t": 2, "free": 1})
    moved_to.append([Record(topic, stored.value, stored.key, SEALED, partition=partition)])
    return moved_to


@pytest.mark.parametrize(
    ("topic", "partition", "study"),
    [("free", 0, "one"), ("t", 1, "one"), ("t", 0, "one"), (None, 0, "other")],
    ids=["another topic", "another partition", "a topic made again", "another study"],
)
def test_a_sealed_record_opens_only_in_its_place(topic, partition, study):
    inner = MemoryLog()
    inner.create({"t": 2, "free": 1})
    log = SealedLog(inner, KEYS, (), "one")
    log.append([RECORD])
    assert [r.value for r in drain(log, "t")[0]] == [RECORD.value]
    where = inner if topic is None else moved(inner, topic, partition)
    reader = SealedLog(where, KEYS, (), study)
    with pytest.raises(LogError, match="record 0: is not what was written there"):
        reader.read(topic or "t", {partition: 0}, 10, 0)


def test_equal_keys_choose_the_same_partition_and_others_take_turns():
    inner = MemoryLog()
    inner.create({"t": 3})
    log = SealedLog(inner, KEYS, ())
    log.append([Record("t", b"%d" % i, b"key") for i in range(5)])
    log.append([Record("t", b"%d" % i, None) for i in range(3)])
    records = drain(log, "t")[0]
    assert len({r.partition for r in records if r.key == b"key"}) == 1
    assert sorted(r.partition for r in records if r.key is None) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (KEYS, None, "declare in run.encryption"),
        (None, KEYS, "is not encrypted"),
        (KEYS, STRANGE, "key that run.encryption does not have"),
    ],
)
def test_nothing_is_written_beside_records_that_do_not_open(first, second, words):
    inner, log = topics(first)
    log.append([RECORD])
    other = SealedLog(inner, second, ())
    with other.own("role") as writer:
        for use in (other.append, writer.commit, lambda _: values(other, "t")):
            with pytest.raises(LogError, match=words):
                use([RECORD])
    assert len(drain(inner, "t")[0]) == 1


@pytest.mark.parametrize("text", ["", "short", OLD[:-1], OLD + "0", OLD + "\n" + "g" * 64])
def test_a_text_that_is_no_key_is_refused_without_a_word_of_it(text):
    with pytest.raises(UserError, match="64 hexadecimal digits") as refused:
        Keyring.of_text(text)
    assert not text or text not in str(refused.value)


def test_keys_are_not_shown_in_words():
    assert repr(RING) == "Keyring(2 keys)"
