"""Journals that contradict themselves: the releaser refuses, and says why."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kit.journals import CLOSED_PERIODS, position_of, rewrite
from kit.panels import Noiseless, StudyFolder, markers

from stream_dp.continual.cumulative.cumulative import STATE_VERSION as totals
from stream_dp.continual.mechanism_interface import PackedState
from stream_dp.continual.window.window import STATE_VERSION as windows
from stream_dp.errors import Inconsistent
from stream_dp.log.message import Message
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.journal import Entry
from stream_dp.study.topics import JOURNAL


def test_the_study_goes_on_where_nothing_is_wrong(place: StudyFolder, handlers: None) -> None:
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert main(["verify", str(place.file)]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("state working/0", "message 2 does not have the bytes of its manifest"),
        ("public/0", "message 2 does not have the bytes of its manifest"),
        ("manifest", "message 2 is missing; the next one is 3"),
    ],
)
def test_a_journal_with_a_gap(
    place: StudyFolder, refused: Callable[..., str], name: str, message: str
) -> None:
    gap = position_of(place, JOURNAL, f"2/{name}")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND offset = ?", gap)
    assert refused() == f"journal: {message}"


def test_a_journal_without_one_of_its_messages(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    first, last = (
        position_of(place, JOURNAL, "1/manifest"),
        position_of(place, JOURNAL, "2/manifest"),
    )
    place.edit(
        "DELETE FROM records WHERE topic = 'journal' AND offset > ? AND offset <= ?", first, last
    )
    assert refused() == "journal: message 2 is missing; the next one is 3"
    assert "journal" in refused("verify", str(place.file))


def test_a_journal_without_its_beginning(place: StudyFolder, refused: Callable[..., str]) -> None:
    place.edit("DELETE FROM records WHERE topic = 'journal' AND offset = 0")
    assert refused().startswith("journal: begins at position 1, so its first records are gone")


def test_a_journal_that_ends_in_a_message(place: StudyFolder, refused: Callable[..., str]) -> None:
    last = position_of(place, JOURNAL, "3/manifest")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND offset = ?", last)
    assert refused() == "journal: ends in the middle of message 3; restore a backup"


@pytest.mark.parametrize("name", ["state pairs/0", "public/0"])
def test_a_tampered_part_of_the_journal(
    place: StudyFolder, refused: Callable[..., str], name: str
) -> None:
    position = position_of(place, JOURNAL, f"2/{name}")
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'journal' AND offset = ?", b"\x00", position
    )
    assert refused() == "journal: message 2 does not have the bytes of its manifest"


def test_a_damaged_manifest(place: StudyFolder, refused: Callable[..., str]) -> None:
    position = position_of(place, JOURNAL, "1/manifest")
    place.edit("UPDATE records SET value = x'7B' WHERE topic = 'journal' AND offset = ?", position)
    assert refused() == "journal: the manifest of message 1 is damaged"


def test_a_broken_chain_in_the_journal(place: StudyFolder, refused: Callable[..., str]) -> None:
    """A message without damage that follows another one than the one before it."""
    position = position_of(place, JOURNAL, "2/manifest")
    (value,) = (row[4] for row in place.rows(JOURNAL) if row[1] == position)
    manifest = msgspec.json.decode(value)
    manifest["previous"] = "f" * 64
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'journal' AND offset = ?",
        msgspec.json.encode(manifest),
        position,
    )
    assert "(broken hash chain)" in refused()


def replaced(sent: Message, name: str, data: bytes) -> Message:
    parts = tuple((n, data if n == name else d) for n, d in sent.parts)
    return Message(
        index=sent.index,
        head=sent.head,
        parts=parts,
        previous=sent.previous,
        hash=sent.hash,
        manifest=sent.manifest,
    )


@pytest.mark.parametrize("release", ["pairs", "working"])
def test_a_state_of_an_unknown_version(
    place: StudyFolder, refused: Callable[..., str], release: str
) -> None:
    def newer(sent: Message) -> Message:
        if sent.index != CLOSED_PERIODS:
            return sent
        state = msgspec.msgpack.decode(Entry(sent).state(release), type=PackedState)
        state.version = 99
        return replaced(sent, f"state {release}/0", lzma.compress(msgspec.msgpack.encode(state)))

    rewrite(place, newer)
    line = refused()
    known = {"pairs": windows, "working": totals}[release]
    assert line.startswith(f"journal: a mechanism's state has version 99, this code reads {known}")


def test_a_state_that_cannot_be_read(place: StudyFolder, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: replaced(sent, "state pairs/0", b"\x00"))
    assert refused() == "journal: a mechanism's state is damaged; restore a backup"


def with_head(sent: Message, **changes: Any) -> Message:
    head = {**sent.head, **changes}
    return Message(
        index=sent.index,
        head=head,
        parts=sent.parts,
        previous=sent.previous,
        hash=sent.hash,
        manifest=sent.manifest,
    )


def test_periods_out_of_order(place: StudyFolder, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: None if sent.index == 2 else sent)
    assert refused() == "journal: entry 2 closes period 3"


def test_charges_that_are_not_the_plan_s(place: StudyFolder, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: with_head(sent, charges=sent.head["charges"][:1]))
    assert refused().startswith("journal: period 2 was charged otherwise than the plan says")


@pytest.mark.parametrize("first", [Noiseless(), SystemNoise()])
def test_seeded_and_unseeded_noise_do_not_mix(first: Any, memory: Path) -> None:
    second = SystemNoise() if first.simulated else Noiseless()
    place = StudyFolder(memory / f"mixed-{first.simulated}")
    place.send(markers(1))
    assert not place.run(source=first)
    with pytest.raises(Inconsistent, match="seeded noise and one without do not mix"):
        place.run(source=second)


def test_a_study_begun_with_seeds_is_not_run_from_the_command_line(
    memory: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    place = StudyFolder(memory / "seeded")
    place.run()
    assert main(["run", str(place.file)]) == 4
    assert "do not mix" in capsys.readouterr().err
