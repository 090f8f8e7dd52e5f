"""Another releaser takes the role of a service that has nothing to do, on a real broker."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from days import Days
from kit.listeners import ask, confidential_listener, metrics, until
from kit.panels import shared

from stream_dp.log.log import Fenced
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.process.events import Event
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.releaser.releaser import Releaser

PATIENCE = 300.0  # seconds
READY = 'stream_dp_ready{study="days"}'


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_dp.services.process.heartbeats.HEARTBEAT_INTERVAL", 0.2)


@pytest.fixture
def place(kafka: str, tmp_path: Path) -> Days:
    return Days.on_kafka(tmp_path / "days", kafka, f"s-{uuid.uuid4().hex[:12]}", 5, partitions=1)


class Service:
    """A releaser in a thread. steps, events: those so far; error: how it ended."""

    def __init__(self, place: Days) -> None:
        self.process: Releaser = releaser_of(place.setting)
        self.steps: list[str] = []
        self.events: list[str] = []
        self.error: BaseException | None = None
        shared(self.process, at=self.steps.append)
        shared(self.process, tell=self._note)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _note(self, event: Event) -> None:
        self.events.append(event.name)

    def _run(self) -> None:
        try:
            self.process.run()
        except BaseException as error:
            self.error = error

    def until(self, said: str, count: int = 1) -> None:
        """Waits until a step or an event has come so often."""
        deadline = time.monotonic() + PATIENCE
        while (self.steps + self.events).count(said) < count:
            assert self.thread.is_alive(), self.error
            assert time.monotonic() < deadline, (self.steps[-3:], self.events[-3:])
            time.sleep(0.05)

    def ended(self) -> BaseException | None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.error


@contextmanager
def serving(place: Days) -> Iterator[tuple[Service, int]]:
    """A service that waits for a close, and the port of its listener."""
    service = Service(place)
    with closing(service.process.log), closing(service.process.public):
        with confidential_listener(service.process.context.facts) as port:
            service.thread.start()
            try:
                service.until("close-awaited")
                until(port, 200, PATIENCE)
                yield service, port
            finally:
                service.process.context.stop.set()
                service.thread.join(PATIENCE)


def closed(place: Days) -> list[int]:
    return [entry.number for entry in place.entries()]


def test_a_fenced_service_is_not_ready_and_goes_on_after_the_other_one(place: Days) -> None:
    place.send(place.day(1))
    with serving(place) as (service, port):
        seen: list[tuple[int, float]] = []

        def look(step: str) -> None:
            if step == "recovered":
                until(port, 503, PATIENCE)
                seen.append((ask(port, "/readyz").status, metrics(port)[READY]))

        assert not place.release(at=look, source=SystemNoise())
        assert seen == [(503, 0)]
        until(port, 200, PATIENCE)
        assert "renewed" in service.steps
        place.send(place.day(2))
        service.until("period-published", 2)
    assert service.ended() is None
    assert closed(place) == [0, 1, 2]
    assert main(["verify", str(place.file)]) == 0


def test_a_fenced_service_leaves_the_role_to_another_service(place: Days) -> None:
    with serving(place) as (first, port), serving(place) as (second, _):
        assert isinstance(first.ended(), Fenced)
        assert ask(port, "/readyz").status == 503
        place.send(place.day(1))
        second.until("period-published")
    assert second.ended() is None
    assert closed(place) == [0, 1]


def test_a_run_beside_a_service_takes_over_only_when_told_to(
    place: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(place.file), "--until-idle"]
    with serving(place) as (service, port):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "another releaser of this study runs" in said
        assert "--take-over" in said
        assert ask(port, "/readyz").status == 200
        place.send(place.day(1))
        service.until("period-published")
        assert main([*command, "--take-over"]) == 0
        service.until("renewed")
        until(port, 200, PATIENCE)
        place.send(place.day(2))
        service.until("period-published", 2)
    assert service.ended() is None
    # A service that has ended needs no such word.
    place.send(place.day(3))
    assert main(command) == 0
    assert closed(place) == [0, 1, 2, 3]
    assert main(["verify", str(place.file)]) == 0


def test_heartbeats_do_not_grow_the_log(place: Days) -> None:
    """The broker compacts them; the settings are checked as those of all topics."""
    place.send(place.day(1))
    assert not place.release()
    with place.opened() as log:
        assert log.faults({"heartbeats": 3}) == []
        config: dict[str, Any] = log._log._topics.config("heartbeats")  # type: ignore[attr-defined]
    assert config["cleanup.policy"] == "compact"
