"""Hostile logs in files and on brokers, and how much memory a small one may cost."""

from __future__ import annotations

import random
import sqlite3
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from kit import hostile
from kit.analysts import commands, judged
from kit.fork_server import run
from kit.hostile import drafts, drafts_and, mutated, sealed, sound
from kit.hostile_arrow import encoded

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main

SENT = sound()


# Memory, measured in a process of its own with a limit.

CHILD = """
import resource, sys
from stream_dp.services.commands.cli import main
import stream_dp.client, pyarrow.csv, pyarrow.parquet, scipy.sparse.linalg
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
code = main(sys.argv[1:])
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""

MOST_KB = 100_000


def alone(*words: object) -> tuple[int, int, str]:
    """Exit code, kB of memory and standard error of a command in a process of its own."""
    done = run("-c", CHILD, *words)
    assert "Traceback" not in done.stderr
    code, more = done.stdout.splitlines()[-1].split()
    return int(code), int(more), done.stderr


def stored(path: Path, records: list[Record]) -> str:
    log = SqliteLog(path, public=True)
    log.create({"releases": 1})
    log.append(records)
    log.close()
    return f"sqlite:{path}"


def bomb(codec: str | None) -> list[Record]:
    """Four hundred million zeros of a panel in some kB, which its certificate announces."""
    chain, one = drafts_and(SENT, "pairs")
    rows = 200_000_000
    zeros = pa.py_buffer(bytes(rows))
    column = pa.Array.from_buffers(pa.uint8(), rows, [None, zeros])
    table = pa.table([column] * 2, names=one.head["columns"])
    if codec is None:
        # Plain, and both columns the same bytes of the same few: no longer than they say.
        data = encoded(table.slice(0, 100_000)).replace(
            (100_000).to_bytes(8, "little"), rows.to_bytes(8, "little")
        )
    else:
        data = encoded(table, options=pa.ipc.IpcWriteOptions(compression=codec))
    assert len(data) < 5_000_000
    one.head["rows"] = rows
    one.parts = [("panel/0", data[:900_000] if codec == "lz4" else data), *one.parts[1:]]
    return sealed(chain)


@pytest.mark.parametrize("codec", ["zstd", None])
def test_a_small_part_never_fills_the_memory(codec: str | None, tmp_path: Path) -> None:
    source = stored(tmp_path / "log.db", bomb(codec))
    for words in (["verify", source], ["export", source, "pairs", tmp_path / "out.csv"]):
        code, more, said = alone(*words)
        assert (code, said.count("\n")) == (4, 1)
        assert more < MOST_KB


def test_a_group_of_a_far_number_never_fills_the_memory(tmp_path: Path) -> None:
    chain, one = drafts_and(SENT, "homes")
    place, data = next((i, d) for i, (n, d) in enumerate(one.parts) if n == "people/0")
    table = pa.ipc.open_stream(data).read_all()
    far = table["group"].to_numpy().copy()
    far[-1] = 2**31 - 1
    one.parts[place] = ("people/0", encoded(table.set_column(0, "group", pa.array(far))))
    source = stored(tmp_path / "log.db", sealed(chain))
    code, more, _ = alone("verify", source)
    assert code == 4
    assert more < MOST_KB


@pytest.mark.parametrize("width", [12, 4000])
def test_a_wide_declaration_never_fills_the_memory(width: int, tmp_path: Path) -> None:
    chain = drafts(SENT)
    declared = chain[0].head["study"]
    values = [f"v{i}" for i in range(240)]
    declared["attributes"] = {f"a{i}": {"values": values, "missing": "v0"} for i in range(8)}
    declared["releases"][0] |= {"attribute": [f"a{i}" for i in range(8)], "width": width}
    hostile._hash_again(chain)
    code, more, said = alone("estimate", stored(tmp_path / "log.db", sealed(chain)))
    assert code == 4
    assert "does not begin with a study's declaration" in said
    assert more < MOST_KB


# Files and brokers.

SOME = ("releases", "verify", "estimate")


@pytest.mark.parametrize("seed", range(4))
def test_a_file_with_a_mutated_log(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = stored(tmp_path / "log.db", mutated(random.Random(seed), SENT))
    for words in commands(source, tmp_path):
        judged(words, capsys)


def test_a_broker_with_mutated_logs(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STREAM_DP_INSECURE", "true")
    for seed in range(4):
        prefix = f"hostile-{uuid.uuid4().hex[:12]}"
        log = KafkaLog(prefix, {"bootstrap.servers": kafka}, replication=1)
        log.create({"releases": 1})
        log.append(mutated(random.Random(seed), SENT))
        log.close()
        for words in commands(f"kafka://{kafka}/{prefix}", tmp_path):
            if words[0] in SOME:
                judged(words, capsys)


RECORD = "INSERT INTO records VALUES ('releases', 0, {}, 0, NULL, {}, {});"

FILES = {
    "another table": "DROP TABLE records; CREATE TABLE records (a);",
    "a view": "DROP TABLE records; CREATE VIEW records AS WITH RECURSIVE n(i) AS (SELECT 0 UNION"
    " ALL SELECT i + 1 FROM n) SELECT 'releases' AS topic, 0 AS partition, i AS offset, 0 AS time,"
    " NULL AS key, zeroblob(1000000) AS value, NULL AS headers FROM n;",
    "a computed column": "DROP TABLE records; CREATE TABLE records (topic, partition, offset, time,"
    " key, value AS (zeroblob(1000000000)), headers);"
    "INSERT INTO records VALUES ('releases', 0, 0, 0, NULL, NULL);",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM records; END;",
    "an index": "CREATE INDEX i ON records (length(value));",
    "a large record": RECORD.format(0, "zeroblob(50000000)", "NULL"),
    "text": RECORD.format(0, "'text'", "NULL"),
    "a place in words": RECORD.format("'abc'", "x'00'", "NULL"),
    "a far place": RECORD.format(0, "x'00'", "NULL") + RECORD.format(2**63 - 1, "x'00'", "NULL"),
    "headers": RECORD.format(0, "x'00'", "x'c1'"),
    "more headers": RECORD.format(0, "x'00'", "x'9192a161a162'"),
    "partitions": "UPDATE topics SET partitions = 1000000000000;",
    "partitions in words": "UPDATE topics SET partitions = 'abc';",
    "a later version": "UPDATE log SET version = 2;",
    "no version": "DELETE FROM log;",
    "a word": "UPDATE log SET identity = x'ff', version = 'abc';",
}


def altered(path: Path, how: str) -> str:
    source = stored(path, [])
    database = sqlite3.connect(path)
    database.executescript(FILES[how])
    database.commit()
    database.close()
    return source


@pytest.mark.parametrize("how", FILES)
def test_a_file_that_exists_already(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", altered(tmp_path / "log.db", how)]) in {2, 4}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize("how", ["a view", "a computed column"])
def test_a_file_that_computes_never_fills_the_memory(how: str, tmp_path: Path) -> None:
    code, more, _ = alone("verify", altered(tmp_path / "log.db", how))
    assert code in {2, 4}
    assert more < MOST_KB


def test_pages_that_are_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "log.db", sealed(drafts(SENT)))
    sound_bytes = (tmp_path / "log.db").read_bytes()
    draw = random.Random(1)
    for _ in range(40):
        damaged = bytearray(sound_bytes)
        start = draw.randrange(100, len(damaged))
        damaged[start : start + 64] = draw.randbytes(64)
        (tmp_path / "log.db").write_bytes(damaged[: draw.choice([len(damaged), start])])
        code = main(["verify", f"sqlite:{tmp_path / 'log.db'}"])
        said = capsys.readouterr()
        assert code in {0, 2, 4}, said.err
        assert code == 0 or len(said.err.splitlines()) == 1
        assert np.all([c == "\n" or c.isprintable() for c in said.out + said.err])
