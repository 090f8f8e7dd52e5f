"""Topics that contradict each other, the study or themselves: refused, and a line says why."""

from __future__ import annotations

import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from days import PEOPLE, Days, everything

from stream_dp.log.kafka_topics import Topics
from stream_dp.log.log import Log, Record, Stored, TopicInfo
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import DEAD_LETTERS, JOURNAL, RELEASES, REPORTS

CLOSED = 3


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restores the signal handlers that `stream-dp run` replaces."""
    kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in kept.items():
        signal.signal(name, handler)


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def place(kafka: str, tmp_path: Path) -> Days:
    """A study of which some periods are published."""
    days = Days.on_kafka(tmp_path / "days", kafka, f"f-{uuid.uuid4().hex[:12]}", 5, partitions=2)
    days.send([record for number in range(1, CLOSED + 1) for record in days.day(number)])
    assert not days.run(source=SystemNoise())
    return days


@pytest.fixture
def refused(place: Days, capsys: pytest.CaptureFixture[str], handlers: None) -> Callable[..., str]:
    """What a command says, in one line, when it ends with exit code 4 and changes nothing."""

    def check(*arguments: str) -> str:
        before = contents(place)
        capsys.readouterr()
        assert main(arguments or ["run", str(place.file), "--until-idle"]) == 4
        out, error = capsys.readouterr()
        assert out == ""
        (line,) = error.splitlines()
        assert contents(place) == before
        return line.removeprefix("stream-dp: ")

    return check


def name(place: Days, topic: str) -> str:
    return (place.public if topic == RELEASES else place.log).rsplit("/", 1)[1] + f".{topic}"


def opened(place: Days, topic: str) -> closing[Log]:
    return place.opened_public() if topic == RELEASES else place.opened()


def read(place: Days, topic: str) -> list[Stored]:
    with opened(place, topic) as log:
        return everything(log, topic)


def contents(place: Days) -> list[Any]:
    records = [sorted(read(place, topic)) for topic in (REPORTS, JOURNAL, RELEASES, DEAD_LETTERS)]
    return [*records, sorted(path.name for path in place.snapshots.iterdir())]


def replace_topic(
    place: Days, admin: AdminClient, topic: str, records: Sequence[Stored], partitions: int = 1
) -> None:
    """Deletes a topic and creates it with those records, as from a backup."""
    admin.delete_topics([name(place, topic)])[name(place, topic)].result(300)
    deadline = time.monotonic() + 120
    while name(place, topic) in admin.list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with opened(place, topic) as log:
        log.create({topic: partitions})
        log.append(
            Record(
                topic=topic,
                value=r.value,
                key=r.key,
                headers=r.headers,
                partition=r.partition,
                time=r.time,
            )
            for r in records
        )


def ended(records: Sequence[Stored], last: str) -> list[Stored]:
    """The records up to the record of that id, which is included."""
    (place,) = (i for i, r in enumerate(records) if dict(r.headers)["ce_id"] == last.encode())
    return list(records[: place + 1])


# What is wrong with the bytes of messages, whatever log they are in.
on_sqlite_too = pytest.mark.slow


def test_the_study_goes_on_where_nothing_is_wrong(place: Days, handlers: None) -> None:
    place.send(place.day(CLOSED + 1))
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert [entry.number for entry in place.entries()] == [0, 1, 2, 3, 4]
    assert main(["verify", str(place.file)]) == 0
    assert main(["verify", str(place.file), "--head", "0" * 64]) == 4


def test_an_older_journal_behind_the_public_log(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    replace_topic(place, admin, JOURNAL, ended(read(place, JOURNAL), "2/manifest"))
    for command in ("run", "verify"):
        line = refused(command, str(place.file), *["--until-idle"][: command == "run"])
        assert "journal: it ends at public message 3, but the public log holds 5" in line
        assert "an older journal was restored" in line
        assert "its noise must not be drawn again" in line


def test_an_empty_journal_beside_a_public_log(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    replace_topic(place, admin, JOURNAL, [])
    assert refused().startswith("journal: it is empty, but the public log is not")


def test_public_topics_that_were_made_again(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    """Empty or filled again, they take an operator's word; the same bytes are published."""
    records = read(place, RELEASES)
    replace_topic(place, admin, RELEASES, [])
    assert refused().startswith("public log: it is empty, but the journal has decided releases")
    replace_topic(place, admin, RELEASES, records[:-1])
    assert refused().startswith("public log: not the topic that the journal was written with")
    assert refused("run", str(place.file), "--until-idle", "--moved") == (
        "public log: ends in the middle of message 5; restore a backup"
    )
    replace_topic(place, admin, RELEASES, ended(records, "3/manifest"))
    line = refused()
    assert line.startswith("public log: not the topic that the journal was written with")
    assert f"stream-dp run {place.file} --moved" in line
    assert main(["run", str(place.file), "--until-idle", "--moved"]) == 0
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert [r.value for r in read(place, RELEASES)] == [r.value for r in records]


@on_sqlite_too
def test_a_journal_that_ends_in_a_message(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    replace_topic(place, admin, JOURNAL, read(place, JOURNAL)[:-1])
    assert refused() == "journal: ends in the middle of message 3; restore a backup"


@on_sqlite_too
def test_a_journal_without_one_of_its_messages(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    kept = [r for r in read(place, JOURNAL) if not dict(r.headers)["ce_id"].startswith(b"2/")]
    replace_topic(place, admin, JOURNAL, kept)
    assert refused() == "journal: message 2 is missing; the next one is 3"


@pytest.mark.parametrize(("topic", "what"), [(JOURNAL, "journal"), (RELEASES, "public log")])
def test_a_topic_whose_beginning_is_gone(
    place: Days, admin: AdminClient, refused: Callable[..., str], topic: str, what: str
) -> None:
    gone = TopicPartition(name(place, topic), 0, 3)
    admin.delete_records([gone])[gone].result(300)
    assert refused() == (
        f"{what}: begins at position 3, so its first records are gone; restore it whole and give"
        " it unlimited retention"
    )


@on_sqlite_too
def test_a_tampered_journal(place: Days, admin: AdminClient, refused: Callable[..., str]) -> None:
    changed = [
        r._replace(value=b"\x00") if dict(r.headers)["ce_id"] == b"2/public/0" else r
        for r in read(place, JOURNAL)
    ]
    replace_topic(place, admin, JOURNAL, changed)
    assert refused() == "journal: message 2 does not have the bytes of its manifest"


@on_sqlite_too
@pytest.mark.parametrize(
    ("part", "change", "line"),
    [
        ("2/panel/0", lambda _: b"\x00", "message 2 does not have the bytes of its manifest"),
        (
            "1/manifest",
            lambda value: value.replace(b'"code_version":"', b'"code_version":"9'),
            "message 2 does not follow the one before it (broken hash chain)",
        ),
    ],
)
def test_a_tampered_release(
    place: Days,
    admin: AdminClient,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    change: Callable[[bytes], bytes],
    line: str,
) -> None:
    changed = [
        r._replace(value=change(r.value)) if dict(r.headers)["ce_id"] == part.encode() else r
        for r in read(place, RELEASES)
    ]
    replace_topic(place, admin, RELEASES, changed)
    monkeypatch.setenv("STREAM_DP_INSECURE", "true")
    assert refused("run", str(place.file), "--moved") == f"public log: {line}"
    assert refused("verify", place.public) == f"public log: {line}"


@on_sqlite_too
def test_a_last_release_that_the_journal_did_not_decide(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    *kept, last = read(place, RELEASES)
    changed = last._replace(value=last.value.replace(b'"unit":"person"', b'"unit":"planet"'))
    replace_topic(place, admin, RELEASES, [*kept, changed])
    line = refused("run", str(place.file), "--moved")
    assert line.startswith("public log: message 5 is not the one that the journal decided")


def test_reports_of_another_topic(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    """As after a move to another cluster: every record is there, but that cannot be verified."""
    replace_topic(
        place=place, admin=admin, topic=REPORTS, records=read(place, REPORTS), partitions=2
    )
    assert refused().startswith("reports: this is another log than the one that the journal was")


def declare_partitions(place: Days, count: int) -> None:
    text = place.file.read_text().replace(
        f"partitions = {place.partitions}", f"partitions = {count}"
    )
    place.file.write_text(text)
    place.partitions, place.setting = count, Deployment.load(place.file)


def table_of(place: Days, number: int) -> str:
    table = place.folder / "table.csv"
    rows = [f"{person},{place.labels[number - 1]},1,yes" for person in PEOPLE]
    table.write_text("\n".join(["person,period,poverty,work", *rows]))
    return str(table)


def test_partitions_that_were_added_are_read_at_the_operators_word(
    place: Days, admin: AdminClient, refused: Callable[..., str], tmp_path: Path
) -> None:
    """What another program has written to them meanwhile is read, too; a backup restores it all."""
    more, table = name(place, REPORTS), table_of(place, CLOSED + 1)
    admin.create_partitions([NewPartitions(more, 3)])[more].result(300)
    commands = [
        ("send", str(place.file), table, "--quiet"),
        ("close", str(place.file), place.labels[CLOSED], "--yes"),
        ("run", str(place.file), "--until-idle"),
        ("topics", str(place.file)),
        ("status", str(place.file)),
        ("verify", str(place.file)),
    ]
    for command in commands:
        line = refused(*command)
        assert "3 partitions" in line, command
        assert "add partitions up to 4" in line, command
    declare_partitions(place, 3)
    assert "add partitions up to 4" in refused()
    admin.create_partitions([NewPartitions(more, 4)])[more].result(300)
    for command in commands:
        assert "write partitions = 4" in refused(*command), command
    declare_partitions(place, 4)
    for command in commands[:2]:
        assert "start stream-dp run, which reads them" in refused(*command), command
    foreign = place.report(PEOPLE[0], place.labels[CLOSED], {"work": "yes"}, 3)
    with place.opened() as log:
        log.append([foreign])
    assert not place.run(source=SystemNoise())
    assert main([*commands[0]]) == 0
    assert main([*commands[1]]) == 0
    shutil.rmtree(place.snapshots)  # everything is read again
    assert not place.run(source=SystemNoise())
    place.send(place.day(CLOSED + 2))
    assert place.run(source=SystemNoise())
    closes = journal.closes(place.entries())
    assert [sorted(entry.input.cut) for entry in closes] == [[0, 1]] * 4 + [[0, 1, 2, 3]] * 2
    assert (
        closes[-2].input.accounting.received - closes[-3].input.accounting.received
        >= 2 * len(PEOPLE) + 1
    )
    for command in ("status", "verify"):
        assert main([command, str(place.file)]) == 0
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 0
    elsewhere = tmp_path / "restored" / "days.toml"
    elsewhere.parent.mkdir()
    text = place.file.read_text().replace(place.log, "sqlite:log.db")
    elsewhere.write_text(text.replace(place.public, "sqlite:public.db"))
    head = closes[-1].published[-1]
    assert main(["restore", str(elsewhere), str(tmp_path / "backup"), "--head", head]) == 0
    assert main(["run", str(elsewhere), "--until-idle", "--moved"]) == 0
    assert main(["verify", str(elsewhere), "--head", head]) == 0


def test_a_topic_of_reports_that_was_made_again(
    place: Days, admin: AdminClient, refused: Callable[..., str]
) -> None:
    """At the operator's word it is read from its beginning; what is in it for closed periods."""
    replace_topic(place=place, admin=admin, topic=REPORTS, records=[], partitions=2)
    table = table_of(place, CLOSED + 1)
    for command in (
        ("run", str(place.file), "--until-idle"),
        ("topics", str(place.file)),
        ("send", str(place.file), table, "--quiet"),
        ("close", str(place.file), place.labels[CLOSED], "--yes"),
    ):
        line = refused(*command)
        assert line.startswith("reports: this is another log than the one that the journal was")
        assert "stream-dp run --moved reads this one from its beginning" in line
    place.send([place.report(PEOPLE[0], place.labels[0], {"work": "yes"})])
    assert not place.run(source=SystemNoise(), moved=True)
    assert main(["send", str(place.file), table]) == 0
    assert main(["close", str(place.file), place.labels[CLOSED], "--yes"]) == 0
    assert not place.run(source=SystemNoise())
    before, after = (entry.input.accounting for entry in journal.closes(place.entries())[-2:])
    assert after.received - before.received == 1 + 2 * len(PEOPLE)
    assert after.rejected["late"] - before.rejected["late"] == 1
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(0o700)
    assert "no snapshot is left" in refused()


def test_reports_that_end_before_the_last_cut(
    place: Days,
    admin: AdminClient,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Positions show the loss even if the topic has the expected identity."""
    identity = place.entries()[0].message.head["reports"]["identity"]
    replace_topic(
        place=place, admin=admin, topic=REPORTS, records=read(place, REPORTS)[:20], partitions=2
    )
    infos = Topics._infos

    def with_the_identity(topics: Topics, seen: Mapping[str, Any]) -> dict[str, TopicInfo]:
        found = infos(topics, seen)
        return {
            t: replace(info, identity=identity) if t == REPORTS else info
            for t, info in found.items()
        }

    monkeypatch.setattr(Topics, "_infos", with_the_identity)
    assert "the topic ends before the last cut of the journal" in refused()
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(0o700)
    assert "the topic ends before the cut of a closed period" in refused()


def test_reports_that_expired_without_a_snapshot(
    place: Days, admin: AdminClient, refused: Callable[..., str], handlers: None
) -> None:
    cut = place.entries()[-1].input.cut
    gone = [TopicPartition(name(place, REPORTS), p, o) for p, o in cut.items()]
    for future in admin.delete_records(gone).values():
        future.result(300)
    assert main(["run", str(place.file), "--until-idle"]) == 0
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(0o700)
    assert refused().startswith(
        "reports: no snapshot is left and the topic no longer reaches back to period 1"
    )
