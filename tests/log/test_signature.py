"""Signatures of owners while a broker has no coordinator for them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_dp.log import kafka_writer
from stream_dp.log.kafka_writer import Signature
from stream_dp.log.log import LogError, Unavailable


class Groups:
    """A consumer whose commits meet these errors, one after the other, and then none."""

    def __init__(self, errors: Sequence[int]) -> None:
        self.errors, self.commits = list(errors), 0

    def commit(self, offsets: object, asynchronous: bool) -> list[object]:
        self.commits += 1
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return []

    def close(self) -> None:
        pass


def signing(monkeypatch: pytest.MonkeyPatch, *errors: int) -> tuple[Signature, Groups]:
    groups = Groups(errors)
    monkeypatch.setattr(kafka_writer, "new_client", lambda kind, settings: groups)
    monkeypatch.setattr(kafka_writer, "_PAUSE", 0.0)
    return Signature({}, "releaser", "topic"), groups


def test_a_coordinator_that_begins_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    young = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    owner, groups = signing(monkeypatch, *young)
    assert owner.sign()
    assert groups.commits == 3


def test_one_that_never_comes_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_writer, "TIMEOUT", -1.0)
    owner, groups = signing(monkeypatch, KafkaError.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(Unavailable, match="the role 'releaser' is not to be had"):
        owner.sign()
    assert groups.commits == 1


def test_a_stray_consumer_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "kafka: a consumer of another program is in the group 'releaser', in which stream-dp notes"
        " who has this role; stop that consumer, or give it another group.id"
    )
    for code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS):
        owner, groups = signing(monkeypatch, code)
        with pytest.raises(LogError) as refusal:
            owner.sign()
        assert (type(refusal.value), str(refusal.value)) == (LogError, line)
        assert groups.commits == 1


def test_other_errors_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, groups = signing(monkeypatch, KafkaError.UNKNOWN)
    with pytest.raises(LogError):
        owner.sign()
    assert groups.commits == 1
    assert not signing(monkeypatch, KafkaError.GROUP_AUTHORIZATION_FAILED)[0].sign()
