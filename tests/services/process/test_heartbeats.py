"""Heartbeats in the log: who lives, who is missing, and what waits since when."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kit.households import TEXT, HouseholdFolder, use_fit_in_rounds
from kit.panels import StudyFolder, declaration
from prometheus_client import CollectorRegistry, generate_latest

from stream_dp.log.log import Log
from stream_dp.log.memory import MemoryLog
from stream_dp.services.commands import status
from stream_dp.services.process.events import Event
from stream_dp.services.process.heartbeats import (
    Heartbeat,
    Heartbeats,
    Process,
    Pulse,
    Waiting,
    heartbeat_record,
    new_heartbeat,
    watch_other,
)
from stream_dp.services.releaser.metrics_listeners import ConfidentialMetrics
from stream_dp.services.releaser.releaser_facts import Clocks, Facts
from stream_dp.services.releaser.releaser_role import Lookout
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import HEARTBEATS, PROCESSES
from stream_dp.studyfile import load_study

AWAITED = Event("aggregator-awaited", "2021-01 waits for: stream-dp aggregate")


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create({HEARTBEATS: len(PROCESSES)})
    return log


def say(log: Log, process: Process, **changes: Any) -> Heartbeat:
    beat = msgspec.structs.replace(new_heartbeat(process, service=True), **changes)
    log.append([heartbeat_record(beat)])
    return beat


def test_a_process_says_that_it_lives_and_how_it_ended(log: MemoryLog) -> None:
    heartbeats = Heartbeats(log)
    with suppress(KeyboardInterrupt), Pulse(log.append, new_heartbeat("worker", service=True)):
        heartbeats.refresh()
        assert heartbeats.last["worker"].beat.ended is None
        assert not heartbeats.last["worker"].beat.surely_dead
        raise KeyboardInterrupt
    heartbeats.refresh()
    assert heartbeats.last["worker"].beat.ended == 130
    assert heartbeats.last["worker"].beat.surely_dead


def test_a_process_of_this_machine_that_is_gone_is_dead(log: MemoryLog) -> None:
    here = new_heartbeat("releaser", service=True)
    assert not here.surely_dead
    assert msgspec.structs.replace(here, pid=1 << 22).surely_dead
    assert msgspec.structs.replace(here, birth=here.birth + "1").surely_dead
    assert not msgspec.structs.replace(here, birth="elsewhere 1", pid=1 << 22).surely_dead
    assert watch_other(Heartbeats(log)) is None
    log.append([heartbeat_record(msgspec.structs.replace(here, pid=1 << 22))])
    assert watch_other(Heartbeats(log)) is None


@pytest.mark.parametrize("taken", [True, False])
def test_who_was_fenced_waits_for_the_first_heartbeat_of_the_new_owner(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    monkeypatch.setattr("stream_dp.services.process.heartbeats.HEARTBEAT_INTERVAL", 0.5)
    own, other = (new_heartbeat("releaser", service=True) for _ in range(2))
    log.append([heartbeat_record(own)])

    class Stop(threading.Event):
        """Waits, and then the new owner's first heartbeat is there."""

        def wait(self, timeout: float | None = None) -> bool:
            if taken:
                log.append([heartbeat_record(other)])
            return super().wait(timeout)

    heard = watch_other(Heartbeats(log), own.instance, Stop())
    assert heard == (other if taken else None)


def exported(facts: Facts) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ConfidentialMetrics(facts))
    return generate_latest(registry).decode()


def test_a_process_without_a_sign_of_life_is_missing_while_work_waits(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("stream_dp.services.releaser.releaser_role.time", clock)
    facts = Facts(load_study(StudyFolder(tmp_path).file)[0])
    lookout = Lookout(log, facts)

    def after(seconds: float) -> Mapping[Process, bool]:
        now[0] += seconds
        lookout.look()
        return facts.missing

    assert after(0) == {}
    facts.wait(AWAITED, {0: 5_000, 1: 7_000})
    facts.open_period = 1
    assert facts.close_due == 7
    assert after(10) == {"aggregator": False}
    assert after(70) == {"aggregator": True}
    assert 'stream_dp_process_missing{process="aggregator",study="small"} 1.0' in exported(facts)
    assert 'stream_dp_close_due_timestamp_seconds{study="small"} 7.0' in exported(facts)
    say(log, "aggregator")
    assert after(10) == {"aggregator": False}
    facts.job("j", "waiting")
    assert after(70) == {"aggregator": True, "worker": False}
    assert after(70) == {"aggregator": True, "worker": True}
    facts.job("j", "done")
    facts.wait(None)
    assert facts.close_due is None
    assert after(10) == {}


def test_status_names_the_process_that_is_missing(tmp_path: Path) -> None:
    text = declaration() + '\nengine = "processes"\nparts = 4\nworker = false\n'
    place = StudyFolder(tmp_path, text, time.time)
    deployment = Deployment.load(place.file)

    def said() -> tuple[dict[str, Any], str]:
        output = status.run(SimpleNamespace(study=place.file))  # type: ignore[arg-type]
        return output.data, output.text

    with closing(deployment.log()) as log:
        log.create({HEARTBEATS: len(PROCESSES), "reports": 2})
        assert "releaser: none was started yet" in said()[1]
        waits = Waiting(AWAITED.name, AWAITED.message, time.time() - 300)
        say(log, "releaser", waits=waits)
        data, words = said()
        assert data["waits_for"].startswith("the aggregator, for ")
        assert data["waits_for"].endswith(", which is MISSING")
        assert "releaser: lives" in words
        assert "aggregator: MISSING, none was ever started; start it: stream-dp aggregate" in words
        beat = say(log, "aggregator")
        data, words = said()
        assert data["waits_for"].startswith("the aggregator, for ")
        assert "MISSING" not in words
        log.append([heartbeat_record(msgspec.structs.replace(beat, ended=4))])
        data, words = said()
        assert "aggregator: MISSING, ended with code 4" in words
        assert [p["missing"] for p in data["processes"]] == [False, True]


# By fault of tests/deploy/test_alerts.py: a sign of life of the process that it meets, and the line
# of `status`. A lost key is in tests/services/releaser/test_encryption.py, late data are in
# tests/services/commands/test_rejected.py, a dead aggregator is above, and the monitor is not of
# the study: its service manager knows.
FAULTS: dict[str, tuple[Process, dict[str, int], str]] = {
    "disk": ("releaser", {"ended": 5}, "releaser: MISSING, ended with code 5"),
    "registry": ("releaser", {"ended": 5}, "releaser: MISSING, ended with code 5"),
    "registry, in parts": ("aggregator", {"ended": 5}, "aggregator: MISSING, ended with code 5"),
    "snapshots": ("releaser", {"ended": 4}, "releaser: MISSING, ended with code 4"),
    "snapshots, in parts": ("aggregator", {"ended": 4}, "aggregator: MISSING, ended with code 4"),
    "worker": ("worker", {"ended": 137}, "worker: MISSING, ended with code 137"),
}
START = {"releaser": "run", "aggregator": "aggregate", "worker": "worker"}


@pytest.mark.parametrize("fault", FAULTS)
def test_status_names_what_a_fault_has_ended(
    fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, sign, line = FAULTS[fault]
    use_fit_in_rounds(monkeypatch)
    more = 'worker = false\nengine = "processes"\nparts = 4\n' if process == "aggregator" else ""
    homes = HouseholdFolder(folder / "homes", TEXT + more)
    homes.prepare()
    if process == "worker":
        homes.run()
    with closing(homes.setting.log()) as log:
        log.create({HEARTBEATS: len(PROCESSES)})
        if process == "aggregator":
            say(log, "releaser", waits=Waiting(AWAITED.name, AWAITED.message, time.time() - 300))
        say(log, process, **sign)
    text = status.run(SimpleNamespace(study=homes.file)).text  # type: ignore[arg-type]
    (said,) = (words for words in text.splitlines() if words.startswith(f"{process}: "))
    assert said.startswith(line)
    assert f"start it: stream-dp {START[process]} {homes.file}" in said


def test_status_says_that_a_close_waits_for_clocks(tmp_path: Path) -> None:
    place = StudyFolder(tmp_path)
    wall = iter([1000.0, 9000.0])  # set an hour ahead and more
    clocks = Clocks(lambda: next(wall), lambda: 0.0)
    with closing(Deployment.load(place.file).log()) as log:
        log.create({HEARTBEATS: len(PROCESSES), "reports": 2})
        message = f"2021-01 goes out {clocks.before(5000.0)}"
        say(log, "releaser", waits=Waiting("release-awaited", message, time.time() - 300))
    text = status.run(SimpleNamespace(study=place.file)).text  # type: ignore[arg-type]
    assert re.search(r"^releaser: lives, .*; for 5m.*once the clocks agree", text, re.MULTILINE)
