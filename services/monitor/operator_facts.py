"""The facts on an operator's page, gathered while somebody views the page. Confidential.

Acts and facts come from commands in child processes, with the checks of a terminal.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.log.log import LogError, Missing
from stream_dp.planning.plan import Plan
from stream_dp.privacy.ledger import Charge
from stream_dp.study.period_gate import GATE, period_gate

from ..storage import journal, journal_checks
from ..storage.deployment import Deployment

COMMAND_TIMEOUT = 300.0  # seconds


@dataclass(frozen=True)
class CommandResult:
    """The result of a command. lines: the reasons of a failure; empty after a success."""

    data: Json
    lines: tuple[str, ...]

    @property
    def succeeded(self) -> bool:
        return not self.lines


def command(name: str, study: Path, *arguments: str) -> CommandResult:
    """Runs `stream-dp NAME STUDY ARGUMENTS --json`."""
    # -P: modules are never imported from the current folder.
    # `=` and `--` keep arguments from being options.
    program = [sys.executable, "-P", "-m", "stream_dp.services.commands.cli"]
    try:
        finished = subprocess.run(
            [*program, name, "--json", str(study), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return CommandResult({}, (f"{name}: no end within {COMMAND_TIMEOUT:.0f} seconds",))
    try:
        data = json.loads(finished.stdout) if finished.stdout else {}
    except ValueError:
        data = {}
    if finished.returncode == 0:
        return CommandResult(data, ())
    return CommandResult(data, _lines(name, finished.stderr, finished.returncode))


def _lines(name: str, stderr: str, code: int) -> tuple[str, ...]:
    """The lines of a command's error, or its exit code if it wrote none."""
    for line in reversed(stderr.splitlines()):
        try:
            return tuple(json.loads(line)["lines"])
        except (ValueError, KeyError, TypeError):
            continue
    return (f"{name}: ended with exit code {code}",)


_INTERVAL = 10.0  # seconds between two looks
_UNWATCHED = 120.0  # seconds after which nobody looks any more
_LATEST = 30  # entries of the journal
_METRICS = {
    "stream_dp_ready": "ready",
    "stream_dp_input_lag_records": "records not read yet",
    "stream_dp_input_lag_seconds": "seconds that the oldest of them has waited",
    "stream_dp_open_period_cells": "cells that wait for the open period's close",
    "stream_dp_release_due_timestamp_seconds": "next releases due",
    "stream_dp_log_answered_timestamp_seconds": "the log last answered",
}


class PlannedPeriod(NamedTuple):
    """charges: of the releases, in words. state: whether they are charged or planned."""

    period: str
    charges: str
    state: str


class EntryRow(NamedTuple):
    """An entry of the journal; period: the label, or '-'."""

    number: int
    kind: str
    period: str
    hash: str


class Metric(NamedTuple):
    name: str
    value: str


@dataclass(frozen=True)
class Facts:
    """The state of a study at one moment.

    status, rejected: the results of `stream-dp status --json` and `rejected --json`.
    entries: of the journal, the latest first.
    lag: metrics of the running releaser; empty without a listener.
    faults: the reasons for missing facts.
    """

    status: Json
    rejected: Json
    plan: tuple[PlannedPeriod, ...]
    entries: tuple[EntryRow, ...]
    lag: tuple[Metric, ...]
    faults: tuple[str, ...]

    @property
    def head(self) -> str:
        """A hash of all facts; open pages reload after a change."""
        return hashlib.sha256(json.dumps(self.__dict__, default=str).encode()).hexdigest()


def gather(study: Path) -> Facts:
    """Gathers all facts once."""
    status, rejected = command("status", study), command("rejected", study)
    faults = [*status.lines, *rejected.lines]
    plan: tuple[PlannedPeriod, ...] = ()
    entries: tuple[EntryRow, ...] = ()
    lag: tuple[Metric, ...] = ()
    try:
        deployment = Deployment.load(study)
        begun, entries = _journal(deployment)
        plan = _plan(begun, status.data.get("last_closed"))
        lag = _lag(deployment)
    except UserError as error:
        faults += error.lines
    except (LogError, OSError) as error:
        faults.append(str(error))
    return Facts(
        status.data,
        rejected.data,
        plan=plan,
        entries=entries,
        lag=lag,
        faults=tuple(dict.fromkeys(faults)),
    )


def _plan(plan: Plan, last: str | None) -> tuple[PlannedPeriod, ...]:
    """The planned charge of every period. last: the last closed period, whose charge was made."""
    periods, rows = plan.study.periods, []
    closed = 0 if last is None else periods.numbers[last]
    gate = period_gate(plan.study)
    gates = () if gate is None else (Charge(GATE, 0, gate.rho),)
    for number, label in enumerate(periods.labels, 1):
        charges = "; ".join(
            f"{c.release} {float(c.rho):.6g}" for c in (*gates, *plan.charges(number))
        )
        state = "charged" if number <= closed else "planned"
        rows.append(PlannedPeriod(label, charges or "none", state))
    return tuple(rows)


def _journal(deployment: Deployment) -> tuple[Plan, tuple[EntryRow, ...]]:
    """The plan, as begun in the journal or of the study file, and the latest entries."""
    study, entries = deployment.study, list[journal.Entry]()
    plan = Plan(study)
    with suppress(Missing), closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
        if entries:
            plan = journal_checks.begun_plan(entries, study)
    rows = (
        EntryRow(
            entry.message.index,
            type(entry.head).__name__.removesuffix("Head").lower(),
            study.periods.labels[number - 1] if (number := entry.gated or entry.number) else "-",
            entry.message.hash,
        )
        for entry in entries[-_LATEST:][::-1]
    )
    return plan, tuple(rows)


def _lag(deployment: Deployment) -> tuple[Metric, ...]:
    """The metrics of the releaser's input, from the releaser's listener. Raises UserError."""
    listen, token = deployment.run.listen, deployment.listen_token
    if listen is None:
        return ()
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://{listen}/metrics", headers=headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=2) as answer:
            text = answer.read(1 << 20).decode()
    except (OSError, ValueError):
        return (Metric("the releaser", "does not answer at " + listen),)
    rows = []
    for family in text_string_to_metric_families(text):
        if family.name in _METRICS and family.samples:
            value = family.samples[0].value
            shown = _moment(value) if family.name.endswith("timestamp_seconds") else f"{value:,.0f}"
            rows.append(Metric(_METRICS[family.name], shown))
    return tuple(rows)


def _moment(seconds: float) -> str:
    delay = seconds - time.time()
    return f"{'in' if delay > 0 else ''} {abs(delay):,.0f} s{'' if delay > 0 else ' ago'}".strip()


class Watch:
    """The latest facts, gathered every few seconds while somebody views a page."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self._viewed = Event()
        self._last = 0.0
        self._first: Thread | None = None
        self.facts: Facts | None = None

    def soon(self, seconds: float) -> Facts | None:
        """The latest facts; None if the first facts take longer than `seconds`."""
        self._ask()
        if self.facts is None:
            if self._first is None or not self._first.is_alive():
                self._first = Thread(target=self.refresh, daemon=True, name="first facts")
                self._first.start()
            self._first.join(seconds)
        return self.facts

    def _ask(self) -> None:
        self._last = time.monotonic()
        self._viewed.set()

    def look(self) -> Facts:
        """The latest facts; waits for the first facts."""
        self._ask()
        if self.facts is None:
            self.refresh()
        assert self.facts is not None
        return self.facts

    def refresh(self) -> None:
        self.facts = gather(self._study)

    def start(self) -> None:
        Thread(target=self._follow, daemon=True, name="facts").start()

    def _follow(self) -> None:
        while self._viewed.wait():
            time.sleep(_INTERVAL)
            if time.monotonic() - self._last > _UNWATCHED:
                self._viewed.clear()
            else:
                self.refresh()
