"""The state of every batch job of a journal, in words and as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ..deployment import Deployment
from ..journal import Entry
from .board import JobBoard
from .progress import duration


def job_states(deployment: Deployment, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every job of a journal, and its state."""
    begun = [job for entry in entries for job in entry.jobs]
    if not begun:
        return []
    labels = deployment.study.periods.labels
    with closing(deployment.log(readonly=True)) as log:
        board = JobBoard(log)
        board.refresh(rounds=True)
        for name in {e.result_of for e in entries} - {None}:
            board.settle(str(name))
    states = []
    for job in begun:
        state, rounds = board.state(job.id), board.rounds[job.id]
        words = state
        if state == "running":
            words += f", {_far(board, job.id)}"
        elif state == "failed":
            words += f": {board.failure(job.id)}"
        states.append(
            {
                "id": job.id,
                "release": job.release,
                "period": labels[job.period - 1],
                "state": state,
                "rounds_decided": rounds,
                "progress": (
                    board.progress[job.id][0].as_dict() if job.id in board.progress else None
                ),
                "reason": board.failure(job.id) if state == "failed" else None,
                "words": words,
            }
        )
    return states


def _far(board: JobBoard, job: str) -> str:
    """What a running job's worker told last, and how long ago: it may have been killed since."""
    if board.has_result(job):
        return "its result is handed in"
    if job not in board.progress:
        return f"{board.rounds[job]} rounds decided"
    progress, when = board.progress[job]
    return f"{progress.words}, told {duration(time.time() - when / 1000)} ago"
