"""The embedded log: the contract, and what is SQLite's own."""

import os
import resource
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from contents import drain, sent, values
from contract import LogContract
from kit.fork_server import Popen

from stream_dp.errors import UserError
from stream_dp.log import open_log
from stream_dp.log.log import Busy, Damaged, LogError, Record, Unavailable, UnknownCommit
from stream_dp.log.sqlite import SqliteLog


@pytest.fixture
def opened():
    """Opens logs and closes them at the end."""
    logs = []

    def opened(path, **options):
        logs.append(SqliteLog(path, **options))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


class TestConfidential(LogContract):
    @pytest.fixture
    def opener(self, tmp_path, opened):
        return lambda: opened(tmp_path / "log.db")


class TestPublic(LogContract):
    @pytest.fixture
    def opener(self, tmp_path, opened):
        return lambda: opened(tmp_path / "log.db", public=True)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_confidential_log_is_for_its_owner_only(tmp_path, opened):
    log = opened(tmp_path / "log.db")
    log.create({"t": 1})
    with log.own("releaser") as writer:
        writer.commit(sent("t", b"x"))
        assert {"log.db", "log.db-wal", "log.db.releaser.lock"} <= set(modes(tmp_path))
        assert set(modes(tmp_path).values()) == {0o600}


def test_a_public_log_can_be_read_by_everybody(tmp_path, opened):
    before = os.umask(0o022)
    try:
        log = opened(tmp_path / "log.db", public=True)
    finally:
        os.umask(before)
    log.create({"t": 1})
    log.append(sent("t", b"x"))
    assert modes(tmp_path) == {"log.db": 0o644}


def test_the_settings_that_make_writes_durable(tmp_path, opened):
    for public, journal, synchronous in ((False, "wal", 2), (True, "delete", 3)):
        log = opened(tmp_path / f"{public}.db", public=public)
        assert log._db.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert log._db.execute("PRAGMA synchronous").fetchone() == (synchronous,)


def test_a_public_log_can_be_read_without_the_right_to_write(tmp_path, opened):
    log = opened(tmp_path / "log.db", public=True)
    log.create({"t": 1})
    log.append(sent("t", b"1"))
    log.close()
    kept = (tmp_path / "log.db").read_bytes()
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    (alone / "log.db").write_bytes(kept)
    (alone / "log.db").chmod(0o444)
    alone.chmod(0o555)
    try:
        reader = opened(alone / "log.db", public=True, readonly=True)
        assert values(reader, "t") == [b"1"]
        with pytest.raises(LogError, match="nothing was written"):
            reader.append(sent("t", b"2"))
        assert {path.name for path in alone.iterdir()} == {"log.db"}
        assert (alone / "log.db").read_bytes() == kept
    finally:
        alone.chmod(0o755)


def test_a_reader_follows_a_public_log_that_grows(tmp_path, opened):
    log = opened(tmp_path / "log.db", public=True)
    log.create({"t": 1})
    reader = opened(tmp_path / "log.db", readonly=True)
    for i in range(3):
        log.append(sent("t", b"%d" % i))
        assert len(values(reader, "t")) == i + 1


def test_the_clock_gives_the_time_and_a_clock_that_goes_back_is_not_followed(tmp_path, opened):
    now = [100.0]
    log = opened(tmp_path / "log.db", clock=lambda: now[0])
    log.create({"t": 1})
    for now[0] in (100.0, 101.5, 90.0, 102.0):
        log.append(sent("t", b"x"))
    records, _ = drain(log, "t")
    assert [r.time for r in records] == [100_000, 101_500, 101_500, 102_000]
    assert [log.cut("t", x)[0] for x in (99, 100, 100.5, 101.5, 102, 103)] == [0, 0, 1, 1, 3, 4]


def test_a_second_owner_is_refused_in_words(tmp_path, opened):
    first, second = opened(tmp_path / "log.db"), opened(tmp_path / "log.db")
    with first.own("releaser"):
        with pytest.raises(Busy, match=r"log\.db: another process is its releaser; stop that one"):
            with second.own("releaser"):
                pass


CHILD = """
import os, signal, sys
from pathlib import Path
from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
log = SqliteLog(Path(sys.argv[1]), public=sys.argv[2] == "public")
"""


def child(code, *arguments):
    return Popen([sys.executable, "-c", CHILD + code, *arguments], stdout=subprocess.PIPE)


def test_several_processes_append_while_one_reads(tmp_path, opened):
    log = opened(tmp_path / "log.db")
    log.create({"t": 2})
    code = """
for i in range(40):
    log.append(Record("t", b"%s %d %d" % (sys.argv[3].encode(), i, j)) for j in range(10))
    log.append([Record("t", b"", partition=1)])
"""
    writers = [child(code, tmp_path / "log.db", "confidential", name) for name in "abc"]
    records, position, done = [], dict(log.describe("t").first), False
    while not done:
        ended = all(w.poll() is not None for w in writers)
        batch = log.read("t", position, 77, 0.05)
        records += batch.records
        position = batch.next
        done = ended and batch.at_end
    assert [w.wait() for w in writers] == [0, 0, 0]
    for writer in writers:
        writer.stdout.close()
    contents = [r.value for r in records if r.partition == 0]
    for name in (b"a", b"b", b"c"):
        own = [v for v in contents if v.startswith(name)]
        assert own == [b"%s %d %d" % (name, i, j) for i in range(40) for j in range(10)]
    assert len(contents) == 1200
    assert sum(r.partition == 1 for r in records) == 120
    assert [r.offset for r in records if r.partition == 0] == list(range(1200))


@pytest.mark.parametrize("kind", ["confidential", "public"])
@pytest.mark.parametrize("steps", [2_000, 50_000, 100_000])
def test_a_crash_in_a_commit_leaves_nothing(tmp_path, opened, kind, steps):
    # The process kills itself after that many of SQLite's own steps, with a cache so small
    # that uncommitted pages are already in the files.
    code = """
log.create({"t": 1, "u": 1})
with log.own("releaser") as writer:
    writer.commit([Record("t", b"before")])
    log._db.execute("PRAGMA cache_size = 5")
    log._db.execute("PRAGMA cache_spill = 1")
    log._db.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), int(sys.argv[3]))
    writer.commit(Record("tu"[i % 2], bytes(500)) for i in range(10_000))
    print("committed", flush=True)
"""
    process = child(code, tmp_path / "log.db", kind, steps)
    with process.stdout as output:
        assert output.read() == b""
    assert process.wait() == -9
    log = opened(tmp_path / "log.db", public=kind == "public")
    assert values(log, "t") == [b"before"]
    assert values(log, "u") == []
    with log.own("releaser") as writer:
        writer.commit(sent("t", b"after"))
    assert values(log, "t") == [b"before", b"after"]


def test_a_crash_in_the_middle_of_making_a_log_is_no_fault(tmp_path, opened):
    code = """
import os, signal, sys
from pathlib import Path
os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from stream_dp.log.sqlite import SqliteLog
SqliteLog(Path(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "log.db"])
    assert done.returncode == -9
    assert not (tmp_path / "log.db").exists()
    log = opened(tmp_path / "log.db")
    log.create({"t": 1})
    assert values(log, "t") == []


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("public", [False, True])
def test_a_log_that_was_emptied_is_no_new_one(tmp_path, opened, public, readonly):
    log = opened(tmp_path / "log.db", public=public)
    log.create({"t": 1})
    log.append(sent("t", b"x"))
    os.truncate(tmp_path / "log.db", 0)  # with its write-ahead log beside it, if it has one
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(Damaged, match=r"log\.db: is empty, so it was emptied"):
        opened(tmp_path / "log.db", public=public, readonly=readonly)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("left", [1, 7, 16, 50, 100, 511, 512, 1000, 4096, 5000, 8192, 40_000])
def test_a_log_that_was_cut_short_is_damaged(tmp_path, opened, left, readonly):
    for public in (False, True):
        path = tmp_path / f"{public}.db"
        log = opened(path, public=public)
        log.create({"t": 1})
        log.append(sent("t", *(bytes(3000) for _ in range(100))))
        log.close()
        os.truncate(path, left)
        kept = path.read_bytes()
        with pytest.raises(Damaged, match=r"\.db: is damaged \(.*\); restore a backup"):
            drain(opened(path, public=public, readonly=readonly), "t")
        assert path.read_bytes() == kept


def test_a_log_whose_pages_are_zero_is_damaged(tmp_path, opened):
    for start in (0, 4096, 8192):
        path = tmp_path / f"{start}.db"
        log = opened(path)
        log.create({"t": 1})
        log.append(sent("t", *(bytes(3000) for _ in range(100))))
        log.close()
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(path.stat().st_size - start))
        with pytest.raises(Damaged, match=r"\.db: is damaged"):
            drain(opened(path, readonly=True), "t")


@contextmanager
def no_growth(size):
    """Files of this process end at `size` bytes: what is beyond is refused, as by a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("public", [False, True])
def test_a_log_without_room_goes_on_when_there_is_some(tmp_path, opened, public):
    path = tmp_path / "log.db"
    with no_growth(0), pytest.raises(Unavailable, match=r"log\.db: cannot be created"):
        opened(path, public=public)
    assert list(tmp_path.iterdir()) == []
    log = opened(path, public=public)
    log.create({"t": 1})
    log.append(sent("t", b"1"))
    many = [bytes(3000) for _ in range(100)]
    with no_growth(20_000):
        with pytest.raises(Unavailable, match=r"log\.db: nothing was written \("):
            log.append(sent("t", *many))
        with log.own("releaser") as writer:
            with pytest.raises(UnknownCommit, match=r"log\.db: a commit failed \("):
                writer.commit(sent("t", *many))
    with (
        no_growth(0),
        pytest.raises(Unavailable, match=r"log\.db: (no topic was created|cannot be read) \("),
    ):
        log.create({"u": 1})
    assert values(log, "t") == [b"1"]
    log.append(sent("t", b"2"))
    assert values(log, "t") == [b"1", b"2"]
    log.close()
    assert values(opened(path, public=public), "t") == [b"1", b"2"]


def test_identities_differ(tmp_path, opened):
    logs = [opened(tmp_path / f"{i}.db") for i in range(3)]
    for log in logs:
        log.create({"t": 1})
    assert max(Counter(log.describe("t").identity for log in logs).values()) == 1


@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path, opened, readonly):
    path = tmp_path / "notes.db"
    path.write_bytes(b"these are notes, not a database, and they are long enough " * 30)
    kept = path.read_bytes()
    with pytest.raises(LogError, match=r"notes\.db: not a log of stream-dp"):
        opened(path, readonly=readonly)
    assert path.read_bytes() == kept


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    "schema", ["CREATE TABLE accounts (x)", "CREATE TABLE log (x)", "CREATE TABLE log (version)"]
)
def test_another_database_is_refused_and_not_touched(tmp_path, opened, schema, readonly):
    path = tmp_path / "accounts.db"
    with sqlite3.connect(path) as db:
        db.execute(schema)
    db.close()
    kept = path.read_bytes()
    with pytest.raises(LogError, match=r"accounts\.db: not a log of stream-dp"):
        opened(path, readonly=readonly)
    assert path.read_bytes() == kept
    assert {p.name for p in tmp_path.iterdir()} == {"accounts.db"}


def test_a_log_of_another_version_is_refused(tmp_path, opened):
    opened(tmp_path / "log.db").close()
    with sqlite3.connect(tmp_path / "log.db") as db:
        db.execute("UPDATE log SET version = 9")
    db.close()
    with pytest.raises(LogError, match="not a log of a version that this code reads"):
        opened(tmp_path / "log.db")


def test_missing_files_and_folders(tmp_path, opened):
    with pytest.raises(LogError, match=r"log\.db: no such log"):
        opened(tmp_path / "log.db", readonly=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LogError, match="nowhere: no such folder"):
        opened(tmp_path / "nowhere" / "log.db")
    with pytest.raises(LogError):
        opened(tmp_path)


def test_a_damaged_log_is_an_error_in_words(tmp_path, opened):
    log = opened(tmp_path / "log.db", public=True)
    log.create({"t": 1})
    log.append(sent("t", *(bytes(3000) for _ in range(100))))
    log.close()
    data = bytearray((tmp_path / "log.db").read_bytes())
    data[20_000:-20_000] = b"\xee" * (len(data) - 40_000)
    (tmp_path / "log.db").write_bytes(data)
    with pytest.raises(LogError, match=r"log\.db"):
        drain(opened(tmp_path / "log.db", readonly=True), "t")


def test_names_of_logs(tmp_path):
    log = open_log("sqlite:some log.db", tmp_path)
    log.create({"t": 1})
    log.append([Record("t", b"x")])
    log.close()
    again = open_log(f"sqlite:{tmp_path / 'some log.db'}", tmp_path / "elsewhere", readonly=True)
    assert values(again, "t") == [b"x"]
    again.close()
    for url in ("some.db", "sqlite:", "sqlit:x.db", "", "http://x/y"):
        with pytest.raises(UserError, match="write it as sqlite:FILE"):
            open_log(url, tmp_path)


def test_timed_topics_carry_the_time_of_appending(tmp_path, opened):
    log = opened(tmp_path / "log.db", timed=("reports",), clock=lambda: 100.0)
    log.create({"reports": 1, "releases": 1})
    for topic in ("reports", "releases"):
        log.append([Record(topic, b"x", time=t) for t in (-(2**62), 2**62)] + sent(topic, b"y"))
    assert [r.time for r in drain(log, "reports")[0]] == [100_000] * 3
    assert [r.time for r in drain(log, "releases")[0]] == [-(2**62), 2**62, 2**62]
    assert [log.cut("reports", t)[0] for t in (0, 100, 101)] == [0, 0, 3]


@pytest.mark.parametrize("raw", [b"\xc1", b"\x91\x92\xa1\xff\xc0", b"\x05", b"\x91\x01", "text", 7])
def test_whatever_a_file_has_is_read_as_bytes(tmp_path, opened, raw):
    log = opened(tmp_path / "log.db")
    log.create({"t": 1})
    row = ("t", 0, 0, 5, "a key", 12, raw)
    log._db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    log.append(sent("t", b"next"))
    records, after = drain(log, "t")
    assert [(r.key, r.value, r.headers) for r in records] == [
        (b"a key", b"12", None),
        (None, b"next", ()),
    ]
    assert after == {0: 2}
