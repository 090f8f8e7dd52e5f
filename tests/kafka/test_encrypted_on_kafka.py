"""A study on a real broker that is encrypted: what the cluster shows, and who can go on."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from days import PEOPLE, Days, everything

from stream_dp.errors import UserError
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_settings import connection_settings
from stream_dp.log.log import SEALED, LogError
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import DEAD_LETTERS, JOURNAL, REPORTS

pytest.importorskip("cryptography")

OLD, NEW, OTHER = (f"{number:064x}" for number in (1, 2, 3))


class EncryptedDays(Days):
    def text(self) -> str:
        return super().text() + '\n[run.encryption]\nfile = "key"\n'


@pytest.fixture
def place(kafka: str, tmp_path: Path) -> EncryptedDays:
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "key").write_text(OLD)
    prefix = f"e-{uuid.uuid4().hex[:12]}"
    days = EncryptedDays.on_kafka(tmp_path / "days", kafka, prefix, 4, partitions=2)
    assert isinstance(days, EncryptedDays)
    days.send([record for number in (1, 2) for record in days.day(number)])
    assert not days.run()
    return days


def declare(place: EncryptedDays, key: str) -> None:
    (place.folder / "key").write_text(key)
    place.setting = Deployment.load(place.file)


def test_the_cluster_shows_nothing_but_what_producers_sent(
    place: EncryptedDays, kafka: str
) -> None:
    prefix = place.log.rpartition("/")[2]
    raw = KafkaLog(prefix, connection_settings(kafka, {}, insecure=True, base=Path()))
    shown = {topic: everything(raw, topic) for topic in (REPORTS, DEAD_LETTERS, JOURNAL)}
    raw.close()
    assert PEOPLE[0].encode() in b"".join(r.value or b"" for r in shown[REPORTS])
    for topic in (DEAD_LETTERS, JOURNAL):
        assert shown[topic]
        assert {record.headers for record in shown[topic]} == {SEALED}
        data = b"".join((r.key or b"") + (r.value or b"") for r in shown[topic])
        words = (*PEOPLE, "poverty", "2021-01", "manifest", REPORTS, JOURNAL)
        assert not [word for word in words if word.encode() in data]
    for snapshot in place.snapshots.iterdir():
        assert b"PK\3\4" not in snapshot.read_bytes()
    assert place.reasons()


def test_the_study_goes_on_after_a_start_and_with_a_new_key(place: EncryptedDays) -> None:
    declare(place, f"{NEW}\n{OLD}\n")
    place.send(place.day(3))
    assert not place.run()
    place.send(place.day(4))
    assert place.run()
    assert [entry.number for entry in place.entries()] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("key", [OTHER, None])
def test_a_wrong_key_is_refused_before_anything_is_written(
    key: str | None, place: EncryptedDays
) -> None:
    before = len(place.entries())
    if key is None:
        place.file.write_text(Days.text(place))
        place.setting = Deployment.load(place.file)
    else:
        declare(place, key)
    place.send(place.day(3))  # as any producer
    with pytest.raises((LogError, UserError), match=r"run\.encryption"):
        place.run()
    place.file.write_text(place.text())
    declare(place, OLD)
    assert len(place.entries()) == before
    assert not place.run()
    assert len(place.entries()) == before + 1
