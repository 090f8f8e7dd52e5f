"""The facts on an operator's pages, gathered while somebody views the page. Confidential.

Acts and facts come from commands in child processes, with the checks of a terminal. The page of
several studies shows problems first, then what is due.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.log.log import LogError, Missing
from stream_dp.planning.plan import Plan
from stream_dp.privacy.ledger import Charge
from stream_dp.study.noisy_gate import GATE, noisy_gate

from ..storage import journal, journal_checks
from ..storage.deployment import Deployment
from ..storage.job_records import duration

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
    gate = noisy_gate(plan.study)
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


class Watched(ABC):
    """What is gathered anew every few seconds while somebody views it. pause: in seconds."""

    def __init__(self, pause: float) -> None:
        self._pause, self._viewed, self._last = pause, Event(), 0.0

    @abstractmethod
    def refresh(self) -> None:
        """Gathers once."""

    def view(self) -> None:
        """Notes that somebody views what is gathered."""
        self._last = time.monotonic()
        self._viewed.set()

    def start(self) -> None:
        Thread(target=self._follow, daemon=True, name="facts").start()

    def _follow(self) -> None:
        while self._viewed.wait():
            self.refresh()
            time.sleep(self._pause)
            if time.monotonic() - self._last > _UNWATCHED:
                self._viewed.clear()


class Watch(Watched):
    """The latest facts of a study."""

    def __init__(self, study: Path) -> None:
        super().__init__(_INTERVAL)
        self._study = study
        self._first: Thread | None = None
        self.facts: Facts | None = None

    def soon(self, seconds: float) -> Facts | None:
        """The latest facts; None if the first facts take longer than `seconds`."""
        if self.facts is None:
            if self._first is None or not self._first.is_alive():
                self._first = Thread(target=self.refresh, daemon=True, name="first facts")
                self._first.start()
            self._first.join(seconds)
        self.view()
        return self.facts

    def look(self) -> Facts:
        """The latest facts; waits for the first facts."""
        if self.facts is None:
            self.refresh()
        self.view()
        assert self.facts is not None
        return self.facts

    def refresh(self) -> None:
        self.facts = gather(self._study)


_AT_ONCE = 4  # studies that are looked at together
_INTERVAL_OF_ALL = 30.0  # seconds between two looks at all studies
_LATE = 300.0  # seconds after which a scheduled close that has not come is a problem


@dataclass(frozen=True)
class StudyRow:
    """One study in the operator's list.

    rank: 0 with a problem, 1 with a due close, 2 otherwise.
    due: when the open period can be closed, in Unix seconds; None without a calendar.
    budget_left: in percent of the total rho; None if it is unknown.
    jobs: the number of jobs by state.
    problems: in words.
    """

    name: str
    rank: int
    open_period: str | None = None
    due: float | None = None
    budget_left: float | None = None
    jobs: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()

    def due_words(self) -> str:
        return (
            "" if self.due is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.due))
        )

    def late_words(self, now: float) -> str:
        """How long the open period could have been closed; empty if it is not due."""
        return "" if self.due is None or now < self.due else duration(now - self.due)


def study_row(name: str, status: CommandResult, now: float) -> StudyRow:
    """The row of a study from the result of `stream-dp status --json`."""
    data = status.data
    if not status.succeeded or not data:
        return StudyRow(name, 0, problems=status.lines or ("its status cannot be read",))
    due = None if data.get("due") is None else datetime.fromisoformat(data["due"]).timestamp()
    late = data["open_period"] is not None and due is not None and now >= due
    problems = [*_problems(data)]
    if late and data["scheduled"] and due is not None and now - due > _LATE:
        problems.append(f"the scheduled close of {data['open_period']} has not come")
    states: dict[str, int] = {}
    for job in data.get("jobs", ()):
        states[job["state"]] = states.get(job["state"], 0) + 1
    spent, total = Fraction(data["rho_spent"]), Fraction(data["rho_total"])
    return StudyRow(
        name,
        rank=0 if problems else 1 if late else 2,
        open_period=data["open_period"],
        due=due,
        budget_left=float(100 * (total - spent) / total),
        jobs=tuple(sorted(states.items())),
        problems=tuple(problems),
    )


def _problems(data: Mapping[str, object]) -> Iterator[str]:
    """What needs an operator, from the result of `stream-dp status`."""
    if data.get("moved"):
        yield "its logs were copied or restored; 'stream-dp status' says what to do"
    for process in data.get("processes", ()):  # type: ignore[attr-defined]
        if process["missing"]:
            yield f"{process['name']}: {process['words']}"
    for job in data.get("jobs", ()):  # type: ignore[attr-defined]
        if job["state"] == "failed":
            yield f"job {job['id']}: {job['words']}"
    for snapshot in data.get("damaged_snapshots", ()):  # type: ignore[attr-defined]
        yield f"snapshot {snapshot} is damaged and set aside"


class Overview(Watched):
    """The latest rows of all studies."""

    def __init__(self, studies: Mapping[str, Path]) -> None:
        super().__init__(_INTERVAL_OF_ALL)
        self._studies, self._lock = dict(studies), Lock()
        self._rows: dict[str, StudyRow] = {}

    def rows(self) -> list[StudyRow]:
        """The rows of the studies that were looked at: problems first, then due ones."""
        self.view()
        rows = list(self._rows.values())
        return sorted(rows, key=lambda row: (row.rank, row.due or float("inf"), row.name))

    @property
    def awaited(self) -> int:
        """How many studies were not looked at yet."""
        return len(self._studies) - len(self._rows)

    @property
    def head(self) -> str:
        """A hash of all rows; open pages reload after a change."""
        rows = [asdict(row) for row in self._rows.copy().values()]
        return hashlib.sha256(json.dumps([rows, self.awaited]).encode()).hexdigest()

    def refresh(self) -> None:
        """Looks at every study once."""
        with self._lock, ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._look, self._studies))

    def _look(self, name: str) -> None:
        status = command("status", self._studies[name])
        self._rows[name] = study_row(name, status, time.time())
