"""Brokers that do not answer for a while: a service waits for them, where nothing was begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from kit.panels import PARTITIONS, Noiseless, StudyFolder, decided, fix_secrets, script

from stream_dp.log.log import Unavailable, UnknownCommit, Untrusted
from stream_dp.log.memory import MemoryLog
from stream_dp.planning.plan import Plan
from stream_dp.services.process.events import Event
from stream_dp.services.releaser import releaser_role as outage
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.releaser.releaser_role import OwnedJournal
from stream_dp.services.storage import journal
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import REPORTS
from stream_dp.studyfile import load_study

AWAY = "kafka: no positions of x.reports: no broker leads it now; waits for one"


class Away:
    """Raises Unavailable at these steps, each time once."""

    def __init__(self, *steps: str) -> None:
        self.steps = list(steps)

    def __call__(self, name: str) -> None:
        if name in self.steps:
            self.steps.remove(name)
            raise Unavailable(AWAY)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    monkeypatch.setattr(outage, "_PAUSE", 0.0)
    fix_secrets(monkeypatch)
    return StudyFolder(tmp_path / "study")


def releaser_of(
    place: StudyFolder, at: Callable[[str], None], draws: list[int], said: list[Event]
) -> Releaser:
    """A releaser on logs like a cluster's, which hold the whole input."""
    log = MemoryLog(timed=(REPORTS,))
    log.create({REPORTS: PARTITIONS})
    for records in script():
        log.append(records)
    study, _ = load_study(place.file)
    return Releaser(
        plan=Plan(study),
        log=log,
        public=MemoryLog(),
        snapshots=Snapshots("snapshots", place.folder),
        context=Context.of(study, at=at, tell=said.append),
        partitions=PARTITIONS,
        source=Noiseless(draws.append),
    )


def test_a_service_goes_on_after_brokers_were_away(place: StudyFolder) -> None:
    calm_draws, draws, said = list[int](), list[int](), list[Event]()
    calm = releaser_of(place, lambda step: None, calm_draws, [])
    assert calm.run()
    steps = ["owned", "recovered", "cut", "cut", "committed", "publish", "published"]
    releaser = releaser_of(place, away := Away(*steps), draws, said)
    assert releaser.run()
    assert away.steps == []
    assert draws == calm_draws
    assert decided(journal.read(releaser.log)) == decided(journal.read(calm.log))
    waits = [event.message for event in said if event.name == "log-awaited"]
    assert set(waits) == {f"waits for the log: {AWAY}"}


def test_a_command_that_runs_until_idle_ends(place: StudyFolder) -> None:
    with pytest.raises(Unavailable, match="no broker leads it"):
        releaser_of(place, Away("recovered"), [], []).run(until_idle=True)


def test_a_process_that_is_no_longer_trusted_ends(place: StudyFolder) -> None:
    """At once, for only a new one reads the new certificates and passwords."""

    def at(name: str) -> None:
        raise Untrusted("kafka: no connection")

    with pytest.raises(Untrusted):
        releaser_of(place, at, [], []).run()


def test_brokers_that_stay_away_end_the_service(
    place: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its manager starts it anew; what it waits for is said once."""
    seconds = iter(range(0, 100_000, 100))
    monkeypatch.setattr(outage, "monotonic", lambda: float(next(seconds)))
    said = list[Event]()
    releaser = releaser_of(place, Away(*["owned"] * 20), [], said)
    with pytest.raises(Unavailable, match="no broker leads it"):
        releaser.run()
    assert [event.name for event in said] == ["log-awaited"]
    assert releaser.context.facts.waiting is not None
    assert releaser.context.facts.waiting.message == f"waits for the log: {AWAY}"


def test_a_stop_ends_the_wait(place: StudyFolder) -> None:
    releaser = releaser_of(place, Away(*["owned"] * 20), [], [])
    releaser.context.stop.set()
    assert not releaser.run()


def test_what_was_drawn_and_not_committed_is_never_drawn_again_here() -> None:
    writer = Mock(**{"commit.side_effect": Unavailable(AWAY)})
    owned = OwnedJournal(Mock(), writer, Mock(), Mock(), Mock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "journal_records", lambda message, study: [])
        with pytest.raises(UnknownCommit, match="no broker leads it"):
            owned.commit(Mock(), lambda step: None)
