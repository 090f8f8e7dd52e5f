"""Every command that reads a public log, on logs of somebody who means ill."""

from __future__ import annotations

import json
import random
import resource
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit import hostile
from kit.hostile import ARROW, RELEASES, Draft, drafts, encoded, mutated, sealed, sound
from kit.public_logs import Shelf

from stream_dp.log.base import Record
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services import deployment as setting
from stream_dp.services.cli import main

SENT = sound()
CHUNKS, EACH = 8, 20
ASKED = "release '", "query '", "share: ", "public log: nothing is published yet"
Said = tuple[int, str, str]

# Children are limited between fork and exec, in a process where JAX may have been imported.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


class Closed(Shelf):
    """A shelf as `open_log` gives it."""

    def close(self) -> None:
        pass


def commands(source: str, out: Path) -> Iterator[list[str]]:
    """Everything that an analyst can ask."""
    yield ["releases", source]
    yield ["releases", source, "--json"]
    yield ["verify", source]
    yield ["estimate", source]
    yield ["estimate", source, "pairs", "pattern full ?"]
    yield ["estimate", source, "months", "total at-least 2", "--count", "--json"]
    yield ["estimate", source, "both", "at-least 1 of last 2 full", "--period", "2021-03"]
    for name in RELEASES:
        yield ["export", source, name, str(out / "panel.csv")]
    yield ["export", source, "pairs", str(out / "panel.parquet"), "--period", "2021-02"]
    yield ["export", source, "homes", str(out / "homes")]


def judged(words: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command, which must end well or be refused in a line."""
    code = main(words)
    said = capsys.readouterr()
    assert all(c == "\n" or c.isprintable() for c in said.out + said.err), (words, said)
    if code == 0:
        assert said.err == "", (words, said)
        if "--json" in words:
            json.loads(said.out)
        return code
    (line,) = said.err.splitlines()
    assert said.out == "", words
    if "--json" in words:
        error = json.loads(line)
        assert error["code"] == code, (words, line)
        (line,) = (f"stream-dp: {fault}" for fault in error["lines"])
    if code == 2:  # what was asked for is not there
        assert line.startswith(tuple(f"stream-dp: {word}" for word in ASKED)), (words, line)
    else:
        assert code == 4, (words, code, line)
        assert line.startswith("stream-dp: public log: "), (words, line)
    return code


@pytest.fixture
def on_a_shelf(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Record]], str]:
    """Puts records where the commands read them; gives the address."""

    def put(records: list[Record]) -> str:
        monkeypatch.setattr(setting, "open_log", lambda *_, **__: Closed(records))
        return "sqlite:somewhere.db"

    return put


def test_the_sound_log_is_read_by_every_command(
    on_a_shelf: Callable[[list[Record]], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = on_a_shelf(sealed(drafts(SENT)))
    assert {judged(words, capsys) for words in commands(source, tmp_path)} == {0}


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_no_mutated_log_does_more_than_be_refused(
    seed: int,
    on_a_shelf: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw, codes = random.Random(seed), set[int]()
    for _ in range(EACH):
        source = on_a_shelf(mutated(draw, SENT))
        codes |= {judged(words, capsys) for words in commands(source, tmp_path)}
    assert {0, 4} <= codes


def of(name: str) -> tuple[list[Draft], Draft]:
    """The chain, and the first message of a release."""
    chain = drafts(SENT)
    return chain, next(d for d in chain if d.head.get("release") == name)


@pytest.mark.parametrize("name", ["pairs", "homes"])
@pytest.mark.parametrize("how", ARROW)
def test_tables_of_another_kind_are_refused(
    how: str,
    name: str,
    on_a_shelf: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, one = of(name)
    for place, (part, data) in enumerate(one.parts):
        table = pa.ipc.open_stream(data).read_all()
        if table.num_columns == 1 and how in {"order", "one name"}:
            continue
        if name == "pairs" and not part.startswith("panel") and how in {"twice", "fewer", "empty"}:
            continue  # how many they are is looked at where they are used
        changed = ARROW[how](table)
        if changed == data or (how == "order" and part.startswith(("groups", "people"))):
            continue
        parts = list(one.parts)
        parts[place] = (part, changed)
        chain[chain.index(one)] = one = Draft(one.head, parts)
        source = on_a_shelf(sealed(chain))
        for words in commands(source, tmp_path):
            assert judged(words, capsys) == 4, (part, words)
        one.parts[place] = (part, data)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"epsilon_spent": "abc"}, "a certificate cannot be read: epsilon_spent"),
        ({"epsilon_spent": "\x1b[31m"}, "a certificate cannot be read: epsilon_spent"),
        ({"period": "2031-01"}, "number is not what the study declares"),
        ({"period": "\x9b2J\u202e"}, "number is not what the study declares"),
        ({"release": "\x1b[31mnone"}, "of a release that the study does not declare"),
        ({"rho": "1e999999999"}, "a certificate cannot be read: rho"),
        ({"rho_total": "7"}, "rho_total is not what the study declares"),
        ({"values": ["v"] * 300}, "values are not what the study declares"),
        ({"format": 2}, "is of a later format than stream-dp"),
        ({"type": "stream-dp.other"}, "a certificate cannot be read: its type is unknown"),
    ],
)
def test_what_is_wrong_is_told_with_the_place_of_the_message(
    head: dict[str, Any],
    told: str,
    on_a_shelf: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, one = of("pairs")
    one.head |= head
    source = on_a_shelf(sealed(chain))
    for words in commands(source, tmp_path):
        assert main(words) == 4
        (line,) = capsys.readouterr().err.splitlines()
        if "--json" in words:
            (fault,) = json.loads(line)["lines"]
            line = f"stream-dp: {fault}"
        assert line.startswith(f"stream-dp: public log: message {chain.index(one)}: ")
        assert told in line


def test_a_later_format_says_to_use_a_newer_version(
    on_a_shelf: Callable[[list[Record]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    chain = drafts(SENT)
    chain[0].head = {"format": 2, "type": "another"}
    assert main(["verify", on_a_shelf(sealed(chain))]) == 4
    assert "message 0: is of a later format" in (line := capsys.readouterr().err)
    assert "use a newer version" in line


def test_nothing_that_is_declared_reaches_the_terminal_as_it_is(
    on_a_shelf: Callable[[list[Record]], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = drafts(SENT)
    declared = chain[0].head["study"]
    words = "\x1b]0;title\x07\x9b31m\u202eback\u2066\x7f\nhead 0000\u2028"
    declared["description"] = declared["unit"] = words
    for one in chain[1:]:
        one.head["unit"] = words
    hostile._hash_again(chain)
    source = on_a_shelf(sealed(chain))
    assert {judged(asked, capsys) for asked in commands(source, tmp_path)} == {0}
    assert main(["releases", source]) == 0
    about, *lines = capsys.readouterr().out.splitlines()
    assert "\\x1b]0;title\\x07\\x9b31m\\u202eback\\u2066\\x7f head 0000" in about
    assert [line for line in lines if line.startswith("head ")] == lines[-1:]


def test_nothing_that_is_declared_reaches_a_page_as_it_is() -> None:
    pytest.importorskip("matplotlib")
    from stream_dp.services.demo.page import _escaped

    assert _escaped("<b>\x9b31m\u202e") == "&lt;b&gt;\\x9b31m\\u202e"


@pytest.mark.parametrize("value", [0.0, 1e-300, 1e-9, 1e6, 9e14])
def test_errors_of_any_size_give_an_answer_or_a_line(
    value: float,
    on_a_shelf: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, draw = drafts(SENT), np.random.default_rng(2)
    for one in chain:
        for place, (part, data) in enumerate(one.parts):
            if part.startswith("measurements"):
                table = pa.ipc.open_stream(data).read_all()
                errors = np.where(draw.random(len(table)) < 0.5, value, 1.0)
                far = pa.array(draw.integers(-(10**14), 10**14, len(table)))
                held = table.set_column(1, "value", far).set_column(
                    3, "standard_error", pa.array(errors)
                )
                one.parts[place] = (part, encoded(held))
    source = on_a_shelf(sealed(chain))
    for words in commands(source, tmp_path):
        judged(words, capsys)


# What a small log may cost. In a process of its own, which cannot take the machine with it.

CHILD = """
import resource, sys
from stream_dp.services.cli import main
import stream_dp.client, pyarrow.csv, pyarrow.parquet, scipy.sparse.linalg
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
code = main(sys.argv[1:])
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
MOST_KB = 100_000


def alone(*words: object) -> tuple[int, int, str]:
    """Exit code, kB of memory and standard error of a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
    )
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
    chain, one = of("pairs")
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
    chain, one = of("homes")
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


# Both kinds of log.

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
    " ALL SELECT i + 1 FROM n) SELECT 'releases' AS topic, 0 AS part, i AS place, 0 AS time,"
    " NULL AS key, zeroblob(1000000) AS value, NULL AS headers FROM n;",
    "a computed column": "DROP TABLE records; CREATE TABLE records (topic, part, place, time, key,"
    " value AS (zeroblob(1000000000)), headers);"
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
def test_a_file_that_somebody_has_made(
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
        held = bytearray(sound_bytes)
        start = draw.randrange(100, len(held))
        held[start : start + 64] = draw.randbytes(64)
        (tmp_path / "log.db").write_bytes(held[: draw.choice([len(held), start])])
        code = main(["verify", f"sqlite:{tmp_path / 'log.db'}"])
        said = capsys.readouterr()
        assert code in {0, 2, 4}, said.err
        assert code == 0 or len(said.err.splitlines()) == 1
        assert np.all([c == "\n" or c.isprintable() for c in said.out + said.err])
