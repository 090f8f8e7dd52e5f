"""The releaser's role, and its neighbours: other releasers, missing processes, silent brokers.

On a cluster a releaser that takes the role fences the one before. Heartbeats are written by the
owner alone, so the last heartbeat in the log is of the releaser that took the role last.

A process is missing if work waits for it, but no heartbeat comes. A releaser on a cluster waits for
brokers that do not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from stream_dp.errors import UserError
from stream_dp.log.log import Fenced, Log, Unavailable, UnknownCommit, Writer
from stream_dp.study import Study
from stream_dp.study.topics import JOURNAL

from ..process.events import Event
from ..process.heartbeats import (
    HEARTBEAT_INTERVAL,
    Heartbeats,
    Process,
    Pulse,
    ReceivedHeartbeat,
    new_heartbeat,
    watch_other,
)
from ..storage import journal
from ..storage.log_guard import LogGuard
from ..storage.restored_logs import ROLE, Mark
from ..storage.witness import NoWitness, OwnedWitness
from .decision import ChainEnd
from .releaser_facts import Context, Facts

_PATIENCE = 300.0  # seconds without an answer, after which the process ends
_PAUSE = 1.0  # seconds between two attempts, each of which is patient itself


@dataclass
class Outage:
    """Attempts to go on after a log did not answer, where no transaction's outcome is unknown."""

    context: Context
    _begun: float | None = field(default=None, init=False)  # on the monotonic clock

    def lasts(self, error: Unavailable) -> bool:
        """Waits before the next attempt. False if none has succeeded for too long."""
        now = monotonic()
        if self._begun is None or self.context.facts.recovered:
            self._begun = now
            event = Event("log-awaited", f"waits for the log: {error}")
            self.context.tell(event)
            self.context.facts.wait(event)
        self.context.stop.wait(_PAUSE)
        return now - self._begun < _PATIENCE


_MISSED = 60.0  # seconds of this process's clock without a heartbeat
_OPEN = {"waiting", "running"}  # states of a job that a worker is to fit


@dataclass
class Lookout:
    """Follows the heartbeats of the processes that have work, and sets `Facts.missing`."""

    log: Log
    facts: Facts
    _heartbeats: Heartbeats = field(init=False)
    _heard: dict[Process, ReceivedHeartbeat | None] = field(default_factory=dict, init=False)
    _alive: dict[Process, float] = field(default_factory=dict, init=False)  # monotonic seconds
    _next: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._heartbeats = Heartbeats(self.log)

    def look(self) -> None:
        """Reads the heartbeats now and then while there is work. Raises LogError."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + HEARTBEAT_INTERVAL
        needed = self._needed()
        if needed:
            self._heartbeats.refresh()
        for process in needed:
            heard = self._heartbeats.last.get(process)
            if process not in self._alive or heard != self._heard.get(process):
                self._alive[process] = now
            self._heard[process] = heard
        self._alive = {p: t for p, t in self._alive.items() if p in needed}
        self.facts.missing = {p: now - self._alive[p] > _MISSED for p in needed}

    def _needed(self) -> list[Process]:
        """The processes for which work waits."""
        waiting, needed = self.facts.waiting, list[Process]()
        if waiting is not None and waiting.event == "aggregator-awaited":
            needed.append("aggregator")
        if any(job.state in _OPEN for job in self.facts.jobs.values()):
            needed.append("worker")
        return needed


# Kafka forgets a role that was idle for some days; older ones are renewed before a commit.
_FRESH = 86_400.0  # seconds
_LOOK = 1.0  # seconds between two looks at the releaser that has the role


class StaleRole(Exception):
    """Kafka may have forgotten the roles: they must be renewed before a commit."""


@dataclass
class OwnedJournal:
    """The journal of the process that may write to it.

    end: the end of its chain.
    witness: of its length.
    guard: of both logs.
    """

    study: Study
    writer: Writer
    end: ChainEnd
    witness: OwnedWitness | NoWitness
    guard: LogGuard
    _used: float = field(default_factory=time.monotonic)

    def require_decidable(self) -> None:
        """Checks that a next decision is this process's, before its noise is drawn.

        Raises StaleRole if the roles were not used for a day, Fenced if the witness was advanced
        elsewhere, LogError without an answer of the witness, and the errors of the guard.
        """
        if time.monotonic() - self._used > _FRESH:
            raise StaleRole
        self.guard.require()
        self.witness.require_same()

    def commit(self, end: ChainEnd, at: Callable[[str], None], kind: str = "") -> None:
        """Commits the entry of a new end, and shows it to the witness before it is published.

        at: called with the name of every step.
        kind: of the entry; the steps' names begin with it.

        Raises UnknownCommit also if the log did not answer before the commit.
        """
        at(f"{kind}commit")
        try:
            self.guard.require()
            self.writer.commit(journal.journal_records(end.entry.message, self.study))
        except Unavailable as error:  # what was drawn is never drawn again by this process
            raise UnknownCommit(str(error)) from None
        self.guard.decided(end.entry.message)
        self.writer.mark(Mark.of(end.entry.message).content)
        self.end = end
        at(f"{kind}committed")
        self.witness.advance_to(end.entry.message)
        at(f"{kind}witnessed")

    def renew(self) -> None:
        """Notes that the roles were just used."""
        self._used = time.monotonic()


@contextmanager
def owned_journal(log: Log, context: Context, *, service: bool) -> Iterator[tuple[Writer, Pulse]]:
    """Owns the role of the journal's writer, and writes heartbeats until the context ends.

    context: its facts learn whether this process has the role.
    service: whether this process stays when there is nothing to do.

    Raises Busy, Fenced, UnknownCommit.
    """
    facts = context.facts
    with log.own(ROLE, JOURNAL) as writer:
        first = new_heartbeat("releaser", service=service)
        pulse = Pulse(
            writer.commit,
            first,
            waits=lambda: facts.waiting,
            strict=True,
            on_failure=facts.lose_role,
        )
        with pulse:
            facts.take_role(first.instance)
            try:
                yield writer, pulse
            finally:
                facts.lose_role()


def outlive(log: Log, context: Context) -> bool:
    """Waits until no other releaser lives; False if asked to stop before.

    Raises Fenced if the other releaser is a service, which goes on.
    """
    heartbeats, announced, stop = Heartbeats(log), False, context.stop
    instance = context.facts.instance
    while not stop.is_set() and (owner := watch_other(heartbeats, instance, stop)) is not None:
        if owner.service:
            raise Fenced(f"another process has taken this role and goes on: {owner.words}")
        if not announced:
            message = f"another process has taken this role: {owner.words}; waits until it ends"
            context.tell(Event("role-lost", message))
            announced = True
        stop.wait(_LOOK)
    return not stop.is_set()


def require_no_other(log: Log, file: str) -> None:
    """Raises UserError if a releaser of the study lives. file: the name of the study file."""
    owner = watch_other(Heartbeats(log))
    if owner is not None:
        raise UserError(
            f"{file}: another releaser of this study runs: {owner.words}; it does what is to be"
            " done. To take its role, stop it first, or give --take-over"
        )
