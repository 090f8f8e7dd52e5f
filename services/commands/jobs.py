"""Commands about batch jobs: what state they are in, the operator's word on them, the worker."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any, TextIO

from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.base import Log, Missing

from .. import journal, place
from ..deployment import Deployment
from ..jobs.progress import Progress, duration
from ..jobs.records import JobBoard, operator_word
from ..journal import Entry
from ..output import JOB_FAILED, Output
from ..releaser.jobs import check_kinds
from ..synthesizer.worker import Worker


def jobs(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if not deployment.study.batches:
        raise UserError(f"{options.study}: declares no batch release, so there are no jobs")
    told = _say(deployment, options.retry, options.abandon)
    try:
        with closing(deployment.log(readonly=True)) as log:
            entries = journal.read(log)
    except Missing:
        entries = []
    held = listed(deployment, entries)
    lines = [f"{job['id']}: {job['words']}" for job in held]
    text = "\n".join(["CONFIDENTIAL", *told, *(lines or ["no job is due yet"])])
    return Output({"confidential": True, "jobs": held}, text)


def _say(deployment: Deployment, retry: str | None, abandon: str | None) -> list[str]:
    """Write the operator's word on a job. Raises UserError where it means nothing."""
    name = retry or abandon
    if name is None:
        return []
    try:
        with closing(deployment.log()) as log:
            board = JobBoard(log)
            board.refresh(rounds=True)
            for job in {e.result_of for e in journal.read(log)} - {None}:
                board.settle(str(job))
            if name not in board.jobs:
                known = ", ".join(board.jobs) or "none"
                raise UserError(f"job '{name}': there is no such job; there are {known}")
            state = board.state(name)
            if state in {"done", "abandoned"} or (retry and state != "failed"):
                can = "a failed job can be tried again" if retry else "an open job can be abandoned"
                raise UserError(f"job '{name}': is {state}; only {can}")
            log.append([operator_word("retry" if retry else "abandon", name)])
    except Missing:
        raise UserError(f"job '{name}': no job is due yet") from None
    return [f"{name}: " + ("will be tried again" if retry else "abandoned; its charge stands")]


def listed(deployment: Deployment, entries: Sequence[Entry]) -> list[dict[str, Any]]:
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
    found = []
    for job in begun:
        state, rounds = board.state(job.id), board.rounds[job.id]
        words = state
        if state == "running":
            words += f", {_far(board, job.id)}"
        elif state == "failed":
            words += f": {board.failure(job.id)}"
        found.append(
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
    return found


def _far(board: JobBoard, job: str) -> str:
    """What a running job's worker told last, and how long ago: it may have been killed since."""
    if board.has_result(job):
        return "its result is handed in"
    if job not in board.progress:
        return f"{board.rounds[job]} rounds decided"
    last, when = board.progress[job]
    return f"{last.words}, told {duration(time.time() - when / 1000)} ago"


def worker_command(deployment: Deployment) -> list[str] | None:
    """Of the worker that `run` starts beside itself; None where others work.

    Raises UserError where this installation cannot fit what the study declares.
    """
    beside = deployment.run.worker
    if beside is None:
        beside = not deployment.run.log.startswith("kafka:")
    if not deployment.study.batches or not beside:
        return None
    check_kinds(deployment.study)
    return [
        "-m",
        "stream_dp.services.cli",
        "worker",
        str(deployment.path),
        "--until-idle",
        "--attached",
    ]


def worker(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if not deployment.study.batches:
        raise UserError(f"{options.study}: declares no batch release, so there is nothing to do")
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    with ExitStack() as stack:
        if options.attached:
            threading.Thread(target=_end_with_parent, daemon=True).start()
        # A releaser reads what an attached worker says on standard error.
        bar = stack.enter_context(_Bar(sys.stdout if options.attached else sys.stderr))
        log = stack.enter_context(closing(deployment.log()))
        if not options.attached:
            _known_file(deployment, log)
        process = Worker(deployment.study, log, deployment.snapshots, stop=stop)
        process.tell = (lambda line: None) if options.attached else bar.tell
        process.on_progress = bar.show
        process.run(until_idle=options.until_idle)
    # A releaser beside it reads of failures in the topics.
    failed = process.failed and options.until_idle and not options.attached
    return Output({"stopped": stop.is_set()}, "", JOB_FAILED if failed else 0)


def _known_file(deployment: Deployment, log: Log) -> None:
    """Raises Inconsistent for a copied file: a worker beside the original draws the same rounds."""
    with suppress(Missing):
        if log.place:
            place.check_place(journal.read(log), log, str(deployment.path))


def _end_with_parent() -> None:
    """Nothing is lost by that: the rounds so far are in the transcript."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


class _Bar:
    """One line on a terminal: the job at hand, its round, its error, the time left."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._bar: tqdm[Any] | None = None
        self._job = ""

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def tell(self, line: str) -> None:
        with tqdm.external_write_mode():
            print(line, flush=True)

    def show(self, told: Progress) -> None:
        if self._bar is None or told.job != self._job:
            self.__exit__()
            # The worker's own guess of the time left: the first rounds also compile programs.
            form = "|{bar:20}| {desc}"
            how: dict[str, Any] = {"bar_format": form, "disable": None, "file": self._file}
            self._bar = tqdm(total=told.rounds, desc=told.job, **how)
            self._job = told.job
        self._bar.n = told.done
        self._bar.set_description_str(f"{told.job}: {told.words}")
        if told.done == told.rounds:
            self.__exit__()
