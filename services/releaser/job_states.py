"""The state of every batch job of a journal, in words and as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from ..storage.deployment import Deployment
from .board import JobBoard
from .job_records import Job
from .journal import Entry
from .progress import Progress, duration


@dataclass(frozen=True)
class JobState:
    """The state of a job, for the operator."""

    id: str
    release: str
    period: str  # its label
    state: str  # waiting, running, failed, abandoned or done
    rounds_decided: int
    progress: Progress | None  # as its worker last reported it
    reason: str | None  # why it failed
    words: str  # the state with its reason or progress

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON, with null for nan."""
        progress = None if self.progress is None else self.progress.as_dict()
        return {**vars(self), "progress": progress}


def job_states(deployment: Deployment, entries: Sequence[Entry]) -> list[JobState]:
    """The state of every job of a journal, in the journal's order."""
    begun = [job for entry in entries for job in entry.jobs]
    if not begun:
        return []
    with closing(deployment.log(readonly=True)) as log:
        board = JobBoard(log)
        board.refresh(rounds=True)
        for job in {entry.result_of for entry in entries} - {None}:
            board.settle(str(job))
    return [_state(deployment.study.periods.labels[job.period - 1], job, board) for job in begun]


def _state(label: str, job: Job, board: JobBoard) -> JobState:
    text = state = board.state(job.id)
    reason = board.failure(job.id) if state == "failed" else None
    if state == "running":
        text += f", {_running_words(board, job.id)}"
    elif state == "failed":
        text += f": {reason}"
    if (killed := board.interruptions(job.id)) and state in {"running", "waiting"}:
        times = "once" if killed == 1 else f"{killed} times"
        text += f"; its worker was killed {times} and goes on from the transcript"
    reported = board.progress.get(job.id)
    return JobState(
        id=job.id,
        release=job.release,
        period=label,
        state=state,
        rounds_decided=board.rounds[job.id],
        progress=None if reported is None else reported.progress,
        reason=reason,
        words=text,
    )


def _running_words(board: JobBoard, job: str) -> str:
    """The last progress of a running job and the age of the report."""
    if board.has_result(job):
        return "its result is handed in"
    reported = board.progress.get(job)
    if reported is None:
        return f"{board.rounds[job]} rounds decided"
    age = time.time() - reported.time / 1000
    return f"{reported.progress.words}, reported {duration(age)} ago"
