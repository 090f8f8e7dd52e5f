"""Months between two decisions: the broker forgets a role that is idle, the releaser does not.

Heartbeats keep the role of the journal's writer; nothing is published for months.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import broker as brokers
import pytest
from broker import FOLDER, Broker
from days import Days

from stream_dp.log.log import UnknownCommit
from stream_dp.services.releaser import releaser_role

FORGETS = """\
transactional.id.expiration.ms=4000
transaction.remove.expired.transaction.cleanup.interval.ms=500
producer.id.expiration.ms=4000
producer.id.expiration.check.interval.ms=500
"""


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose transactional ids expire within seconds instead of days."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brokers, "_PROPERTIES", brokers._PROPERTIES + FORGETS)
        broker = Broker(tmp_path_factory.mktemp("broker"), libs=FOLDER / "libs")
        address = broker.start()
    yield address
    broker.stop()


def waits(seen: Counter[str]) -> Callable[[str], None]:
    """Counts steps, and waits eight seconds after the first `recovered`."""

    def at(name: str) -> None:
        seen[name] += 1
        if name == "recovered" and seen[name] == 1:
            time.sleep(8)

    return at


def test_a_role_that_has_expired_is_owned_again_before_noise_is_drawn(
    forgetful: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.services.process.heartbeats.HEARTBEAT_INTERVAL", 0.5)
    ours = Days.on_kafka(tmp_path / "kafka", forgetful, "idle", 2)
    theirs = Days.on_sqlite(tmp_path / "sqlite", 2)
    for days in (ours, theirs):
        for number in (1, 2):
            days.send(days.day(number))
    assert theirs.run()
    with pytest.raises(UnknownCommit, match="not currently assigned"):
        ours.run(at=waits(Counter()))
    assert len(ours.entries()) == 2  # the first period is decided, and not yet published
    monkeypatch.setattr(releaser_role, "_FRESH", 6.0)
    seen: Counter[str] = Counter()
    assert ours.run(at=waits(seen))
    assert (seen["renewed"], seen["owned"], seen["drawn"]) == (1, 2, 1)
    assert ours.decided() == theirs.decided()
