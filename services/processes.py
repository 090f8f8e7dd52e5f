"""Which processes of a study live, for `stream-dp status`: each by its last heartbeat."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .deployment import Deployment
from .heartbeats import Heard, Process
from .jobs.progress import duration
from .jobs.states import JobState

_SILENT = 60.0  # seconds; clocks of two machines differ a little
_OPEN = {"waiting", "running"}
_COMMANDS: dict[Process, str] = {
    "releaser": "run",
    "aggregator": "aggregate",
    "worker": "worker",
}


@dataclass(frozen=True)
class ProcessState:
    """A kind of process.

    lives: whether its last heartbeat is recent and not its last word.
    missing: whether work waits for it and it does not live.
    words: all of it, with what to do.
    """

    name: Process
    lives: bool
    missing: bool
    words: str

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def process_states(
    deployment: Deployment,
    beats: Mapping[Process, Heard],
    jobs: Sequence[JobState],
    *,
    close_sent: bool,
) -> list[ProcessState]:
    """The state of each kind of process that the study has.

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
    deployment: Deployment, name: Process, heard: Heard | None, has_work: bool
) -> ProcessState:
    start = f"stream-dp {_COMMANDS[name]} {deployment.path}"
    if heard is None:
        words = "MISSING, none was ever started" if has_work else "none was started yet"
        return ProcessState(name, False, has_work, f"{words}; start it: {start}")
    beat, age = heard.beat, time.time() - heard.time
    lives = beat.ended is None and not beat.surely_dead and age < _SILENT
    ago = f"{duration(max(0.0, age))} ago"
    if lives:
        words = f"lives, {beat.words}, last heard {ago}"
        if beat.waits is not None:
            since = duration(max(0.0, time.time() - beat.waits.since))
            words += f"; for {since}: {beat.waits.message}"
        return ProcessState(name, True, False, words)
    how = f"ended with code {beat.ended} {ago}" if beat.ended is not None else f"last heard {ago}"
    words = f"{'MISSING' if has_work else 'not running'}, {how} ({beat.words}); start it: {start}"
    return ProcessState(name, False, has_work, words)


def close_waits(beats: Mapping[Process, Heard], states: Sequence[ProcessState]) -> str:
    """What a close that was ordered waits for; empty where none was."""
    by_name = {state.name: state for state in states}
    releaser, aggregator = by_name.get("releaser"), by_name.get("aggregator")
    if releaser is None or aggregator is None or not releaser.lives:
        return ""
    waits = beats["releaser"].beat.waits
    if waits is None or waits.event != "aggregator-awaited":
        return ""
    since = duration(max(0.0, time.time() - waits.since))
    return f"the aggregator, for {since}" + (", which is MISSING" if aggregator.missing else "")
