"""`stream-dp status`, `jobs` and `rejected`: what an operator asks. CONFIDENTIAL.

The status is the open period, the last release and the budget. Jobs have states, and the operator
retries or abandons one. Dead letters are listed by reason, attribute and period.

The live processes of a study are known by their last heartbeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Forbidden, Log, LogError, Missing
from stream_dp.privacy.ledger import Ledger
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES, REPORTS

from ..intake.group_tables import has_table
from ..intake.markers import has_close_markers
from ..process.command_output import Output
from ..process.heartbeats import Heartbeats, Process, ReceivedHeartbeat
from ..releaser.job_board import JobBoard, JobState, job_states
from ..storage import journal, journal_checks, restored_logs
from ..storage.deployment import Deployment
from ..storage.job_records import duration, operator_word
from ..storage.journal import Entry, is_held

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
    """The states of the study's processes, with advice for missing processes.

    A process is missing if it has work and does not live. The releaser has work on a schedule, or
    once an operator has sent a close. The aggregator has work while the releaser waits for it, and
    a worker while a job is open.

    beats: the last heartbeat of each process; a process that never ran has none.
    jobs: the batch jobs of the journal.
    close_sent: whether an operator has given the close of the open period.
    """
    releaser = beats.get("releaser")
    waits = None if releaser is None else releaser.beat.waits
    awaits_aggregator = waits is not None and waits.event == "aggregator-awaited"
    has_work: dict[Process, bool] = {
        "releaser": close_sent or deployment.study.periods.close != "marker"
    }
    if deployment.run.engine != "here":
        has_work["aggregator"] = awaits_aggregator
    if deployment.study.batches:
        has_work["worker"] = any(job.state in _OPEN for job in jobs)
    return [_state(deployment, name, beats.get(name), needed) for name, needed in has_work.items()]


def _state(
    deployment: Deployment, name: Process, heard: ReceivedHeartbeat | None, has_work: bool
) -> ProcessState:
    """The state of a process by its last heartbeat. has_work: whether work waits for it."""
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


_MARKER_SEARCH_TIME = 5.0  # seconds to search unread records for a close


@dataclass
class _Logs:
    """The state found in the readable part of the confidential log.

    entries: of the journal; none before the study begins.
    ledger: of the journal.
    held: whether the gate holds the open period.
    close_sent: whether its close was given; None if unread records may hold it.
    refusal: why the releaser would refuse the log's files.
    beats: the last heartbeat of each process.
    """

    entries: Sequence[Entry] = ()
    ledger: Ledger | None = None
    held: bool = False
    close_sent: bool | None = False
    refusal: str | None = None
    beats: Mapping[Process, ReceivedHeartbeat] = field(default_factory=dict)


def _read(deployment: Deployment) -> _Logs:
    """Reads the confidential log, if there is one. Raises Inconsistent, LogError."""
    study, logs = deployment.study, _Logs()
    with suppress(Missing), closing(deployment.log(readonly=True)) as log:
        with suppress(Missing):  # before the first run, when reports and closes may be there
            logs.entries = journal.read_heads(log)
        if logs.entries:
            plan = journal_checks.begun_plan(logs.entries, study)
            logs.ledger = journal_checks.check_journal(logs.entries, plan, log.describe(REPORTS))
        logs.held = is_held(logs.entries)
        if study.periods.close == "marker" or logs.held:
            logs.close_sent = None
            with suppress(Forbidden):  # an operator of jobs alone, who reads no reports
                logs.close_sent = has_close_markers(log, study, logs.entries, _MARKER_SEARCH_TIME)
        logs.refusal = _file_refusal(deployment, logs.entries, log)
        heartbeats = Heartbeats(log)
        heartbeats.refresh()
        logs.beats = heartbeats.last
    return logs


def _awaited(deployment: Deployment, found: _Logs, number: int) -> str:
    """What the open period waits for, in words. number: of the last closed period."""
    labels = deployment.study.periods.labels
    if number == len(labels):
        return "nothing: the horizon is reached"
    if deployment.study.periods.close != "marker" and not found.held:
        return "its scheduled close"
    if found.close_sent:
        return f"stream-dp run {deployment.path}: the close was given, and is not read yet"
    close = f"stream-dp close {deployment.path} {labels[number]}"
    if found.held:
        close = f"the operator, for [study.gate] holds it: {close} --despite-gate"
    unread = ", unless that was given among what is not read yet"
    return close + (unread if found.close_sent is None else "")


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    study = deployment.study
    labels = study.periods.labels
    logs = _read(deployment)
    entries, held = logs.entries, logs.held
    if not entries:
        deployment.check_unpublished()
    last = journal.closes(entries)[-1] if entries else None
    number = last.number if last else 0
    states = job_states(deployment, entries)
    processes = process_states(deployment, logs.beats, states, close_sent=bool(logs.close_sent))
    waits = _awaited(deployment, logs, number)
    if number < len(labels):
        waits = close_waits(logs.beats, processes) or waits
    spent = logs.ledger.spent if logs.ledger else 0
    cells = last.input.accounting if last else None
    data: dict[str, object] = {
        "confidential": True,
        "study": study.name,
        "begun": bool(entries),
        "moved": logs.refusal is not None,
        "open_period": labels[number] if number < len(labels) else None,
        "scheduled": study.periods.close != "marker",
        "due": _due(study, number + 1),
        "held": held,
        "waits_for": waits,
        "processes": [process.as_dict() for process in processes],
        "last_closed": labels[number - 1] if number else None,
        "rho_spent": str(spent),
        "rho_total": str(study.rho),
        "cells_at_last_cut": None if cells is None else dict(sorted(cells.as_dict().items())),
    }
    text = [
        "CONFIDENTIAL",
        f"study {study.name}: " + ("begun" if entries else "not begun; 'stream-dp run' begins it"),
        f"open period: {data['open_period'] or 'none'}, waits for {waits}",
        f"last closed: {data['last_closed'] or 'none'}",
        f"budget: rho {float(spent):.6g} of {float(study.rho):.6g} spent",
    ]
    text += [f"{process.name}: {process.words}" for process in processes]
    if logs.refusal is not None:
        text.append(logs.refusal)
    if study.groups is not None or study.places is not None:
        table = "groups" if study.places is None else "places"
        sent = entries or has_table(deployment)
        data[f"{table}_sent"] = bool(sent)
        if not sent:
            files = "GROUPS MEMBERS" if study.places is None else "PLACES"
            text.append(f"{table}: none sent; stream-dp {table} {options.study} {files}")
    if entries:
        data["damaged_snapshots"] = damaged = _damaged(deployment, entries)
        advice = (
            "set aside, as it is damaged; look after the disk, and remove it when it is not needed"
        )
        text += [f"snapshot {name}: {advice}" for name in damaged]
    if states:
        data["jobs"] = [job.as_dict() for job in states]
        text += [f"job {job.id}: {job.words}" for job in states]
    if cells is not None:
        text.append(
            f"cells up to the last cut: {cells.received} received = "
            f"{cells.accepted} accepted + {cells.superseded} superseded + "
            f"{sum(cells.rejected.values())} rejected + {cells.pending} pending"
        )
    return Output(data, "\n".join(text))


def _due(study: Study, number: int) -> str | None:
    """When a period can be closed: at its scheduled close, or when it has ended; None for steps."""
    periods = study.periods
    if number > periods.count:
        return None
    scheduled = periods.close_time(number)
    moment = periods.release_time(number) if scheduled is None else scheduled
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def _damaged(deployment: Deployment, entries: Sequence[Entry]) -> list[str]:
    """The names of snapshots that were set aside; empty if the folder cannot be read."""
    try:
        return deployment.snapshots.of(entries[0].message.hash[:12]).damaged()
    except (LogError, UserError):
        return []


def _file_refusal(deployment: Deployment, entries: Sequence[Entry], log: Log) -> str | None:
    """The error of `run` about copied or restored log files; None without an error."""
    if not entries:
        return None
    file = str(deployment.path)
    try:
        restored_logs.check_identity(entries, log, file)
        with closing(deployment.public(readonly=True)) as public:
            published = bool(public.read(RELEASES, {0: 0}, 1, 0).records)
            restored_logs.moved_entry(
                entries, log, public, published=published, moved=False, file=file
            )
    except Missing:
        return None
    except Inconsistent as error:
        return error.lines[0]
    return None


def list_jobs(options: argparse.Namespace) -> Output:
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


def list_rejected(options: argparse.Namespace) -> Output:
    from ..intake import dead_letters  # the status does not wait for decoders
    from ..intake.input_decoders import shape_reader

    deployment = Deployment.load(options.study)
    try:
        with closing(deployment.log(readonly=True)) as log:
            rejections, records = dead_letters.read_rejections(
                log, dead_letters.Placing(deployment.study, shape_reader(deployment))
            )
    except Missing:
        rejections, records = dead_letters.no_rejections(), 0
    data: dict[str, object] = {
        "confidential": True,
        "rejected": dead_letters.totals(rejections),
        "records": records,
        "cells": dead_letters.rejections_data(rejections),
    }
    lines = dead_letters.rejections_text(rejections) or ["nothing was rejected"]
    return Output(data, "\n".join(["CONFIDENTIAL", *lines]))
