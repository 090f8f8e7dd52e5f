"""Logs that contradict each other, the study or themselves: the releaser refuses, and says why."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kit.killed import in_memory
from kit.panels import SCHEDULE, Noiseless, Place, markers, script

from stream_dp.continual.base import PackedState
from stream_dp.continual.cumulative import STATE_VERSION as totals
from stream_dp.continual.window import STATE_VERSION as windows
from stream_dp.errors import Inconsistent
from stream_dp.log.message import Message, build_message
from stream_dp.privacy.noise import SystemNoise
from stream_dp.release.panels import TOPIC
from stream_dp.services import journal
from stream_dp.services.cli import main
from stream_dp.services.journal import Entry
from stream_dp.services.topics import JOURNAL, REPORTS
from stream_dp.studyfile import load_study

CLOSED = 3


@pytest.fixture(scope="module", autouse=True)
def _copies_pass(copies_pass: None) -> None:
    """Each test has a copy of one study; what is refused of copies is in test_moved.py."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def halfway(memory: Path) -> Place:
    """A study of which some periods are published."""
    place = Place(memory / "halfway")
    for records in script()[:CLOSED]:
        place.send(records)
    assert not place.run(source=SystemNoise())
    return place


@pytest.fixture
def place(halfway: Place, memory: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    copy = halfway.copy(memory / "copy")
    yield copy
    shutil.rmtree(copy.folder)


@pytest.fixture
def refused(place: Place, capsys: pytest.CaptureFixture[str], handlers: None) -> Callable[..., str]:
    """What a command says, in one line, when it ends with exit code 4 and changes nothing."""

    def check(*arguments: str, code: int = 4) -> str:
        before = contents(place)
        assert main(arguments or ["run", str(place.file), "--until-idle"]) == code
        out, error = capsys.readouterr()
        assert out == ""
        (line,) = error.splitlines()
        assert line.startswith("stream-dp: ")
        assert contents(place) == before
        return line.removeprefix("stream-dp: ")

    return check


@pytest.fixture
def handlers() -> Iterator[None]:
    """`stream-dp run` takes over signals; here they are given back."""
    kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in kept.items():
        signal.signal(name, handler)


def contents(place: Place) -> list[Any]:
    found = [place.rows(topic) for topic in (REPORTS, JOURNAL, TOPIC, "dead-letters")]
    return [*found, sorted(path.name for path in place.snapshots.iterdir())]


def rewrite(place: Place, change: Callable[[Message], Message | None]) -> None:
    """Write the journal anew with other content, its hashes and chain sound."""
    study, _ = load_study(place.file)
    written: list[Message] = []
    for entry in place.entries():
        made = change(entry.message)
        if made is None:
            continue
        previous = written[-1].hash if written else "0" * 64
        written.append(build_message(len(written), previous, made.head, made.parts))
    with closing(sqlite3.connect(place.db)) as db, db:
        db.execute("DELETE FROM records WHERE topic = 'journal'")
    with place.log() as log:
        log.append(r for m in written for r in journal.journal_records(m, study))


def sole(place: Place, topic: str, name: str) -> int:
    """The place of the first record of a topic whose name ends so."""
    for _, position, _, _, _, headers in place.rows(topic):
        if dict(msgspec.msgpack.decode(headers))["ce_id"].decode().endswith(name):
            return int(position)
    raise AssertionError


def test_the_study_goes_on_where_nothing_is_wrong(place: Place, handlers: None) -> None:
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert main(["verify", str(place.file)]) == 0


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("state working/0", "message 2 does not have the bytes of its manifest"),
        ("public/0", "message 2 does not have the bytes of its manifest"),
        ("manifest", "message 2 is missing; the next one is 3"),
    ],
)
def test_a_journal_with_a_gap(
    place: Place, refused: Callable[..., str], name: str, found: str
) -> None:
    gap = sole(place, JOURNAL, f"2/{name}")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND place = ?", gap)
    assert refused() == f"journal: {found}"


def test_a_journal_without_one_of_its_messages(place: Place, refused: Callable[..., str]) -> None:
    first, last = sole(place, JOURNAL, "1/manifest"), sole(place, JOURNAL, "2/manifest")
    place.edit(
        "DELETE FROM records WHERE topic = 'journal' AND place > ? AND place <= ?", first, last
    )
    assert refused() == "journal: message 2 is missing; the next one is 3"
    assert "journal" in refused("verify", str(place.file))


def test_a_journal_without_its_beginning(place: Place, refused: Callable[..., str]) -> None:
    place.edit("DELETE FROM records WHERE topic = 'journal' AND place = 0")
    assert refused().startswith("journal: begins at position 1, so its first records are gone")


def test_a_journal_that_ends_in_a_message(place: Place, refused: Callable[..., str]) -> None:
    last = sole(place, JOURNAL, "3/manifest")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND place = ?", last)
    assert refused() == "journal: ends in the middle of message 3; restore a backup"


def test_an_older_journal_behind_the_public_log(place: Place, refused: Callable[..., str]) -> None:
    last = sole(place, JOURNAL, "2/manifest")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND place > ?", last)
    line = refused()
    assert "an older journal was restored" in line
    assert "its noise must not be drawn again" in line
    assert "an older journal was restored" in refused("verify", str(place.file))


def test_the_confidential_log_of_another_run(
    place: Place, memory: Path, refused: Callable[..., str]
) -> None:
    other = Place(memory / "other")
    other.send(script()[0])
    assert not other.run(source=SystemNoise())
    for path in place.folder.glob("small.db*"):
        path.unlink()
    shutil.copy(other.db, place.db)
    shutil.rmtree(place.snapshots)
    shutil.copytree(other.snapshots, place.snapshots)
    shutil.rmtree(other.folder)
    assert "an older journal was restored" in refused()
    last = sole(place, TOPIC, "1/manifest")
    place.edit("DELETE FROM records WHERE topic = 'releases' AND place > ?", last, public=True)
    assert refused().startswith("public log: message 1 is not the one that the journal decided")


def test_no_journal_beside_a_public_log(place: Place, refused: Callable[..., str]) -> None:
    place.edit("DELETE FROM records WHERE topic = 'journal'")
    assert refused().startswith("journal: it is empty, but the public log is not")
    assert refused("verify", str(place.file)).startswith("journal: it is empty")


def test_a_new_confidential_log_beside_a_public_log(
    place: Place, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    for path in place.folder.glob("small.db*"):
        path.unlink()
    before = place.rows(TOPIC)
    assert main(["run", str(place.file), "--until-idle"]) == 4
    assert "journal: it is empty, but the public log is not" in capsys.readouterr().err
    assert place.rows(TOPIC) == before


@pytest.mark.parametrize("name", ["state pairs/0", "public/0"])
def test_a_tampered_part_of_the_journal(
    place: Place, refused: Callable[..., str], name: str
) -> None:
    found = sole(place, JOURNAL, f"2/{name}")
    place.edit("UPDATE records SET value = ? WHERE topic = 'journal' AND place = ?", b"\x00", found)
    assert refused() == "journal: message 2 does not have the bytes of its manifest"


def test_a_damaged_manifest(place: Place, refused: Callable[..., str]) -> None:
    found = sole(place, JOURNAL, "1/manifest")
    place.edit("UPDATE records SET value = x'7B' WHERE topic = 'journal' AND place = ?", found)
    assert refused() == "journal: the manifest of message 1 is damaged"


@pytest.mark.parametrize("name", ["panel/0", "measurements/0"])
def test_a_tampered_release(place: Place, refused: Callable[..., str], name: str) -> None:
    found = sole(place, TOPIC, name)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND place = ?",
        b"\x00",
        found,
        public=True,
    )
    for command in (
        ["run", str(place.file), "--until-idle"],
        ["verify", str(place.file)],
        ["verify", place.public_source],
        ["releases", place.public_source],
    ):
        line = refused(*command)
        assert line == "public log: message 1 does not have the bytes of its manifest"


def test_a_tampered_certificate_breaks_the_chain(place: Place, refused: Callable[..., str]) -> None:
    found = sole(place, TOPIC, "1/manifest")
    (value,) = (row[4] for row in place.rows(TOPIC) if row[1] == found)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND place = ?",
        value.replace(b'"code_version":"', b'"code_version":"9'),
        found,
        public=True,
    )
    for command in (["verify", place.public_source], ["run", str(place.file), "--until-idle"]):
        assert refused(*command) == (
            "public log: message 2 does not follow the one before it (broken hash chain)"
        )


def test_a_last_release_changed_with_its_hashes(place: Place, refused: Callable[..., str]) -> None:
    """The chain ends there, so only the journal, or a hash kept elsewhere, can tell."""
    last = max(row[1] for row in place.rows(TOPIC))
    (value,) = (row[4] for row in place.rows(TOPIC) if row[1] == last)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND place = ?",
        value.replace(b'"code_version":"', b'"code_version":"9'),
        last,
        public=True,
    )
    expected = "is not the one that the journal decided"
    assert expected in refused()
    assert expected in refused("verify", str(place.file))


def test_a_public_log_that_ends_within_a_release(place: Place, refused: Callable[..., str]) -> None:
    last = max(row[1] for row in place.rows(TOPIC))
    place.edit("DELETE FROM records WHERE topic = 'releases' AND place = ?", last, public=True)
    assert refused().startswith("public log: ends in the middle of message")


def test_a_public_log_that_ends_within_a_period(place: Place, refused: Callable[..., str]) -> None:
    """Of the two releases of a period, one."""
    entry = place.entries()[-1]
    second = max(
        i for i, r in enumerate(entry.public_records()) if (r.key or b"").endswith(b"pairs")
    )
    last = max(row[1] for row in place.rows(TOPIC)) - len(entry.public_records()) + 1 + second
    place.edit("DELETE FROM records WHERE topic = 'releases' AND place > ?", last, public=True)
    assert refused() == "public log: it ends in the middle of a period's releases"


def test_a_broken_chain_in_the_journal(place: Place, refused: Callable[..., str]) -> None:
    """A sound message that follows another one."""
    found = sole(place, JOURNAL, "2/manifest")
    (value,) = (row[4] for row in place.rows(JOURNAL) if row[1] == found)
    held = msgspec.json.decode(value)
    held["previous"] = "f" * 64
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'journal' AND place = ?",
        msgspec.json.encode(held),
        found,
    )
    assert "(broken hash chain)" in refused()


def test_reports_of_another_log(place: Place, refused: Callable[..., str]) -> None:
    place.edit("UPDATE log SET identity = 'another'")
    assert refused().startswith("reports: this is another log than the one")
    assert refused("verify", str(place.file)).startswith("reports: this is another log")


@pytest.mark.parametrize("partitions", [1, 3])
def test_another_number_of_partitions(
    place: Place, refused: Callable[..., str], partitions: int
) -> None:
    place.edit("UPDATE topics SET partitions = ? WHERE name = 'reports'", partitions)
    assert f"'reports' has {partitions} partitions" in refused(code=2)
    text = place.file.read_text()
    place.file.write_text(text.replace("partitions = 2", f"partitions = {partitions}"))
    line = refused()
    assert line.startswith(f"reports: the topic has {partitions} partitions, the journal was begun")
    assert "cannot change during a study" in line


def test_another_number_of_partitions_in_the_study_file(
    place: Place, refused: Callable[..., str]
) -> None:
    text = place.file.read_text()
    place.file.write_text(text.replace("partitions = 2", "partitions = 7"))
    assert "'reports' has 2 partitions" in refused(code=2)


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("rho = 0.2", "rho = 0.25", "releases.pairs.rho, releases.working.rho"),
        ('name = "working"', 'name = "work-ing"', "releases.working, releases.work-ing"),
        ("size = 32", "size = 33", "study.population.size"),
        ("delta = 1e-6", "delta = 1e-7", "study.delta"),
        (
            'close = "marker"',
            SCHEDULE,
            "study.periods.close, study.periods.zone, study.periods.at, study.periods.grace,"
            " study.periods.delay",
        ),
        ("count = 5", "count = 6", "study.periods.count"),
    ],
)
def test_a_study_that_has_changed(
    place: Place, refused: Callable[..., str], old: str, new: str, keys: str
) -> None:
    text = place.file.read_text().replace("[study]", '[study]\ndescription = "other words"')
    place.file.write_text(text.replace(old, new))
    line = refused()
    prefix, _, rest = line.partition("study: it has changed since its first record: ")
    named, _, _ = rest.partition(";")
    assert prefix == ""
    assert set(keys.split(", ")) == set(named.split(", "))
    assert "restore the study file, or start a new study" in line
    assert refused("verify", str(place.file)).startswith("study: it has changed")


def test_where_it_runs_may_change(place: Place, handlers: None) -> None:
    shutil.move(place.db, place.folder / "moved.db")
    shutil.move(place.public_db, place.folder / "moved-public.db")
    text = place.file.read_text()
    for old, new in (("small.db", "moved.db"), ("small-public", "moved-public")):
        text = text.replace(old, new)
    place.file.write_text(text.replace("[run]", '[run]\nsnapshots = "moved"'))
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert main(["verify", str(place.file)]) == 0


def test_reports_that_end_before_the_cut(place: Place, refused: Callable[..., str]) -> None:
    cut = place.entries()[-1].cut[0]
    place.edit("DELETE FROM records WHERE topic = 'reports' AND part = 0 AND place >= ?", cut - 5)
    line = refused()
    assert line.startswith("reports: the topic ends before the last cut of the journal")
    assert not any(character.isdigit() for character in line)


def test_reports_that_end_before_the_cut_and_no_snapshot(
    place: Place, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir()
    cut = place.entries()[-1].cut[0]
    place.edit("DELETE FROM records WHERE topic = 'reports' AND part = 0 AND place >= ?", cut - 5)
    assert refused().startswith("reports: the topic ends before the cut of a closed period")


def test_reports_that_no_longer_reach_back_and_no_snapshot(
    place: Place, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir()
    place.edit("DELETE FROM records WHERE topic = 'reports' AND part = 1 AND place < 3")
    line = refused()
    assert line.startswith("reports: no snapshot is left and the topic no longer reaches back")
    assert "restore a snapshot" in line


def test_reports_that_were_changed_and_no_snapshot(
    place: Place, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir()
    place.edit("UPDATE records SET value = x'00' WHERE topic = 'reports' AND place = 4")
    assert "what is below the last cut is not what the journal counted" in refused()


def test_a_damaged_snapshot(place: Place, refused: Callable[..., str]) -> None:
    latest = place.snapshots / place.entries()[-1].snapshot[0]
    whole = latest.read_bytes()
    for damage in (whole[:-1], b"", b"\x00" + whole[1:]):
        latest.write_bytes(damage)
        line = refused()
        assert line.startswith(f"snapshot {latest.name}: not the bytes that the journal names")
        assert "remove it" in line
    latest.unlink()
    assert not place.run(source=SystemNoise())


def replaced(sent: Message, name: str, data: bytes) -> Message:
    parts = tuple((n, data if n == name else d) for n, d in sent.parts)
    return Message(sent.index, sent.head, parts, sent.previous, sent.hash, sent.manifest)


@pytest.mark.parametrize("release", ["pairs", "working"])
def test_a_state_of_an_unknown_version(
    place: Place, refused: Callable[..., str], release: str
) -> None:
    def newer(sent: Message) -> Message:
        if sent.index != CLOSED:
            return sent
        state = msgspec.msgpack.decode(Entry(sent).state(release), type=PackedState)
        state.version = 99
        return replaced(sent, f"state {release}/0", msgspec.msgpack.encode(state))

    rewrite(place, newer)
    line = refused()
    known = {"pairs": windows, "working": totals}[release]
    assert line.startswith(f"journal: a mechanism's state has version 99, this code reads {known}")


def test_a_state_that_cannot_be_read(place: Place, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: replaced(sent, "state pairs/0", b"\x00"))
    assert refused() == "journal: a mechanism's state is damaged; restore a backup"


def with_head(sent: Message, **changes: Any) -> Message:
    head = {**sent.head, **changes}
    return Message(sent.index, head, sent.parts, sent.previous, sent.hash, sent.manifest)


def test_periods_out_of_order(place: Place, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: None if sent.index == 2 else sent)
    assert refused() == "journal: entry 2 closes period 3"


def test_charges_that_are_not_the_plan_s(place: Place, refused: Callable[..., str]) -> None:
    rewrite(place, lambda sent: with_head(sent, charges=sent.head["charges"][:1]))
    assert refused().startswith("journal: period 2 was charged otherwise than the plan says")


@pytest.mark.parametrize("first", [Noiseless(), SystemNoise()])
def test_seeded_and_unseeded_noise_do_not_mix(first: Any, memory: Path) -> None:
    second = SystemNoise() if first.simulated else Noiseless()
    place = Place(memory / f"mixed-{first.simulated}")
    place.send(markers(1))
    assert not place.run(source=first)
    with pytest.raises(Inconsistent, match="seeded noise and one without do not mix"):
        place.run(source=second)


def test_a_study_begun_with_seeds_is_not_run_from_the_command_line(
    memory: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    place = Place(memory / "seeded")
    place.run()
    assert main(["run", str(place.file)]) == 4
    assert "do not mix" in capsys.readouterr().err


def test_a_head_kept_elsewhere(
    place: Place, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused("verify", place.public_source, "--head", "f" * 64)
    assert line.startswith("public log: the hash kept elsewhere is not in its chain")
    for entry in place.entries():
        assert main(["verify", str(place.file), "--head", entry.published[-1]]) == 0
    assert "the hash that was kept elsewhere is in the chain" in capsys.readouterr().out


def test_both_logs_restored_together_are_seen_by_the_head_alone(
    place: Place, halfway: Place, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    place.send(script()[CLOSED])
    assert main(["run", str(place.file), "--until-idle"]) == 0
    head = place.entries()[-1].published[-1]
    assert main(["verify", str(place.file), "--head", head]) == 0
    for old, now in ((halfway.db, place.db), (halfway.public_db, place.public_db)):
        shutil.copy(old, now)
    assert main(["verify", str(place.file)]) == 0
    capsys.readouterr()
    assert main(["verify", str(place.file), "--head", head]) == 4
    assert "an older log was restored" in capsys.readouterr().err
