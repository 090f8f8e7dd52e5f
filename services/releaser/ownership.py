"""The releaser's role: the journal's writer, heartbeats, and other releasers.

On a cluster a releaser that takes the role fences the one before. Heartbeats are written by the
owner alone, so the last heartbeat in the log is of the releaser that took the role last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_dp.errors import UserError
from stream_dp.log.log import Fenced, Log, Unavailable, UnknownCommit, Writer
from stream_dp.study import Study
from stream_dp.study.topics import JOURNAL

from ..process.events import Event
from ..process.heartbeats import Heartbeats, Pulse, new_heartbeat, watch_other
from ..storage.restored_logs import ROLE, Mark
from . import journal
from .decision import ChainEnd
from .log_guard import LogGuard
from .releaser_facts import Context
from .witness import NoWitness, OwnedWitness

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
