"""`stream-dp jobs`: the states of batch jobs; retries or abandons one. CONFIDENTIAL."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.errors import UserError
from stream_dp.log.log import Missing

from ..process.command_output import Output
from ..releaser.job_board import JobBoard, job_states
from ..storage import journal
from ..storage.deployment import Deployment
from ..storage.job_records import operator_word


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if not deployment.study.batches:
        raise UserError(f"{options.study}: declares no batch release, so there are no jobs")
    notices = _record_operator_word(deployment, options.retry, options.abandon)
    try:
        with closing(deployment.log(readonly=True)) as log:
            entries = journal.read_heads(log)
    except Missing:
        entries = []
    states = job_states(deployment, entries)
    lines = [f"{job.id}: {job.words}" for job in states]
    text = "\n".join(["CONFIDENTIAL", *notices, *(lines or ["no job is due yet"])])
    return Output({"confidential": True, "jobs": [job.as_dict() for job in states]}, text)


def _record_operator_word(
    deployment: Deployment, retry: str | None, abandon: str | None
) -> list[str]:
    """Records that the operator retries or abandons a job; returns lines for the operator.

    Raises UserError if the job's state does not allow the command.
    """
    job_id = retry or abandon
    if job_id is None:
        return []
    try:
        with closing(deployment.log()) as log:
            board = JobBoard(log)
            board.refresh(rounds=True)
            for job in {e.result_of for e in journal.read_heads(log)} - {None}:
                board.settle(str(job))
            if job_id not in board.jobs:
                job_names = ", ".join(board.jobs) or "none"
                raise UserError(f"job '{job_id}': there is no such job; there are {job_names}")
            state = board.state(job_id)
            if state in {"done", "abandoned"} or (retry and state != "failed"):
                allowed = (
                    "a failed job can be tried again" if retry else "an open job can be abandoned"
                )
                raise UserError(f"job '{job_id}': is {state}; only {allowed}")
            log.append([operator_word("retry" if retry else "abandon", job_id)])
    except Missing:
        raise UserError(f"job '{job_id}': no job is due yet") from None
    return [f"{job_id}: " + ("will be tried again" if retry else "abandoned; its charge stands")]
