"""The live processes of a study, by last heartbeat, for `stream-dp status`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..releaser.job_states import JobState
from ..releaser.progress import duration
from ..storage.deployment import Deployment
from .heartbeats import Process, ReceivedHeartbeat

_SILENT = 60.0  # seconds; clocks of two machines differ a little
_OPEN = {"waiting", "running"}
_COMMANDS: dict[Process, str] = {
    "releaser": "run",
    "aggregator": "aggregate",
    "worker": "worker",
}


@dataclass(frozen=True)
class ProcessState:
    """The state of a kind of process.

    lives: whether the last heartbeat is recent and without an exit code.
    missing: whether work waits for a process that does not live.
    words: the state in words, with advice.
    """

    name: Process
    lives: bool
    missing: bool
    words: str

    def as_dict(self) -> dict[str, object]:
        return dict(vars(self))


def process_states(
    deployment: Deployment,
    beats: Mapping[Process, ReceivedHeartbeat],
    jobs: Sequence[JobState],
    *,
    close_sent: bool,
) -> list[ProcessState]:
    """The states of the study's kinds of processes.

    close_sent: whether an operator has given the close of the open period.
    """
    releaser = beats.get("releaser")
    waits = None if releaser is None else releaser.beat.waits
    ordered = waits is not None and waits.event == "aggregator-awaited"
    work: dict[Process, bool] = {
        "releaser": close_sent or deployment.study.periods.close != "marker"
    }
    if deployment.run.engine != "here":
        work["aggregator"] = ordered
    if deployment.study.batches:
        work["worker"] = any(job.state in _OPEN for job in jobs)
    return [_state(deployment, name, beats.get(name), has) for name, has in work.items()]


def _state(
    deployment: Deployment, name: Process, heard: ReceivedHeartbeat | None, has_work: bool
) -> ProcessState:
    start = f"stream-dp {_COMMANDS[name]} {deployment.path}"
    if heard is None:
        text = "MISSING, none was ever started" if has_work else "none was started yet"
        return ProcessState(name, False, has_work, f"{text}; start it: {start}")
    beat, age = heard.beat, time.time() - heard.time
    lives = beat.ended is None and not beat.surely_dead and age < _SILENT
    ago = f"{duration(max(0.0, age))} ago"
    if lives:
        text = f"lives, {beat.words}, last heard {ago}"
        if beat.waits is not None:
            since = duration(max(0.0, time.time() - beat.waits.since))
            text += f"; for {since}: {beat.waits.message}"
        return ProcessState(name, True, False, text)
    how = f"ended with code {beat.ended} {ago}" if beat.ended is not None else f"last heard {ago}"
    text = f"{'MISSING' if has_work else 'not running'}, {how} ({beat.words}); start it: {start}"
    return ProcessState(name, False, has_work, text)


def close_waits(beats: Mapping[Process, ReceivedHeartbeat], states: Sequence[ProcessState]) -> str:
    """The process that an ordered close waits for, in words; empty without an ordered close."""
    by_name = {state.name: state for state in states}
    releaser, aggregator = by_name.get("releaser"), by_name.get("aggregator")
    if releaser is None or aggregator is None or not releaser.lives:
        return ""
    waits = beats["releaser"].beat.waits
    if waits is None or waits.event != "aggregator-awaited":
        return ""
    since = duration(max(0.0, time.time() - waits.since))
    return f"the aggregator, for {since}" + (", which is MISSING" if aggregator.missing else "")
