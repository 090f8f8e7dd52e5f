"""Every command that reads a public log, on hostile logs in memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit import hostile
from kit.analysts import commands, judged
from kit.hostile import Draft, drafts, drafts_and, mutated, sealed, sound
from kit.hostile_arrow import ARROW, encoded
from kit.matrices import chunks
from kit.public_logs import TopicInMemory

from stream_dp.log.log import Record
from stream_dp.services.commands.cli import main
from stream_dp.services.monitor.render import render

SENT = sound()

CHUNKS, EACH = 4, 16

Said = tuple[int, str, str]


class ClosableTopic(TopicInMemory):
    """A log as `open_log` gives it, which can be closed."""

    def close(self) -> None:
        pass


@pytest.fixture
def in_memory_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Record]], str]:
    """Puts records where the commands read them; gives the address."""

    def put(records: list[Record]) -> str:
        monkeypatch.setattr("stream_dp.log.open_log", lambda *_, **__: ClosableTopic(records))
        return "sqlite:somewhere.db"

    return put


def test_the_sound_log_is_read_by_every_command(
    in_memory_source: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = in_memory_source(sealed(drafts(SENT)))
    assert {judged(words, capsys) for words in commands(source, tmp_path)} == {0}


@chunks(2, CHUNKS)
def test_no_mutated_log_does_more_than_be_refused(
    seed: int,
    in_memory_source: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw, codes = random.Random(seed), set[int]()
    for number in range(EACH):
        source = in_memory_source(mutated(draw, SENT))
        # Half of the commands, and the others on the next log: most read all that is there.
        some = list(commands(source, tmp_path))[number % 2 :: 2]
        codes |= {judged(words, capsys) for words in some}
    assert {0, 4} <= codes


@pytest.mark.parametrize("name", ["pairs", "homes"])
@pytest.mark.parametrize("how", ARROW)
def test_tables_of_another_kind_are_refused(
    how: str,
    name: str,
    in_memory_source: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, one = drafts_and(SENT, name)
    first = [*ARROW].index(how)
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
        source = in_memory_source(sealed(chain))
        every = list(commands(source, tmp_path))
        for words in every[(place + first) % 4 :: 4]:  # the others read the other parts and kinds
            assert judged(words, capsys) == 4, (part, words)
        one.parts[place] = (part, data)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"epsilon_spent": "abc"}, "a certificate cannot be read: epsilon_spent"),
        ({"epsilon_spent": "\x1b[31m"}, "a certificate cannot be read: epsilon_spent"),
        ({"period": "2031-01"}, "number is not what the study declares"),
        ({"period": "\x9b2J\u202e"}, "number is not what the study declares"),
        ({"release": "\x1b[31mnone"}, "of a release that the study does not declare"),
        ({"rho": "1e999999999"}, "a certificate cannot be read: rho"),
        ({"rho_total": "7"}, "rho_total is not what the study declares"),
        ({"values": ["v"] * 300}, "values are not what the study declares"),
        ({"format": 2}, "is of a later format than this version"),
        ({"type": "stream-dp.other"}, "a certificate cannot be read: its type is unknown"),
    ],
)
def test_what_is_wrong_is_reported_with_the_place_of_the_message(
    head: dict[str, Any],
    message: str,
    in_memory_source: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, one = drafts_and(SENT, "pairs")
    one.head |= head
    source = in_memory_source(sealed(chain))
    for words in commands(source, tmp_path):
        assert main(words) == 4
        (line,) = capsys.readouterr().err.splitlines()
        if "--json" in words:
            (fault,) = json.loads(line)["lines"]
            line = f"stream-dp: {fault}"
        assert line.startswith(f"stream-dp: public log: message {chain.index(one)}: ")
        assert message in line


def test_a_later_format_says_to_use_a_newer_version(
    in_memory_source: Callable[[list[Record]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    chain = drafts(SENT)
    chain[0].head = {"format": 2, "type": "another"}
    assert main(["verify", in_memory_source(sealed(chain))]) == 4
    assert "message 0: is of a later format" in (line := capsys.readouterr().err)
    assert "use a newer one" in line


def test_nothing_that_is_declared_reaches_the_terminal_as_it_is(
    in_memory_source: Callable[[list[Record]], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain = drafts(SENT)
    declared = chain[0].head["study"]
    words = "\x1b]0;title\x07\x9b31m\u202eback\u2066\x7f\nhead 0000\u2028"
    declared["description"] = declared["unit"] = words
    names = ("unit", "guarantee", "invariants")
    for one in chain[1:]:
        for name in names:
            one.head[name] = one.head[name].replace("person", words)
    hostile.replan(chain, **dict.fromkeys(names, lambda text: text.replace("person", words)))
    hostile._hash_again(chain)
    source = in_memory_source(sealed(chain))
    assert {judged(asked, capsys) for asked in commands(source, tmp_path)} == {0}
    assert main(["releases", source]) == 0
    about, *lines = capsys.readouterr().out.splitlines()
    assert "\\x1b]0;title\\x07\\x9b31m\\u202eback\\u2066\\x7f head 0000" in about
    assert [line for line in lines if line.startswith("head ")] == lines[-1:]


def test_nothing_that_is_declared_reaches_a_page_as_it_is() -> None:
    text = render(
        "problem.html", root="", base="site.html", head="", title="t", lines=["<b>\x9b31m\u202e"]
    )
    assert "&lt;b&gt;\\x9b31m\\u202e" in text


@pytest.mark.parametrize("value", [0.0, 1e-300, 9e14])
def test_errors_of_any_size_give_an_answer_or_a_line(
    value: float,
    in_memory_source: Callable[[list[Record]], str],
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
                changed = table.set_column(1, "value", far).set_column(
                    3, "standard_error", pa.array(errors)
                )
                one.parts[place] = (part, encoded(changed))
    source = in_memory_source(sealed(chain))
    for words in commands(source, tmp_path):
        judged(words, capsys)
