"""Who has the releaser's role: heartbeats by its owner, and what follows when another one takes it.

On a cluster whoever takes the role fences the one before. Heartbeats are written by the owner
alone, so the last one in the log is of the releaser that took the role last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stream_dp.errors import UserError
from stream_dp.log.log import Fenced, Log, Writer
from stream_dp.study.topics import JOURNAL

from ..process.events import Event, Tell
from ..process.heartbeats import Heartbeats, Pulse, new_heartbeat, watch_other
from ..storage.restored_logs import ROLE
from .releaser_facts import Facts

_LOOK = 1.0  # seconds between two looks at the releaser that has the role


@contextmanager
def owned_journal(log: Log, facts: Facts, *, service: bool) -> Iterator[tuple[Writer, Pulse]]:
    """Owns the role of the journal's writer, and writes heartbeats until the context ends.

    facts: are told whether this process has the role.
    service: whether this process stays where there is nothing to do now.

    Raises Busy, Fenced, UnknownCommit.
    """
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


def outlive(log: Log, instance: str, tell: Tell, stop: threading.Event) -> bool:
    """Waits until no other releaser lives; False if `stop` is set before.

    instance: of this process's heartbeats.

    Raises Fenced where the other one is a service, which goes on.
    """
    heartbeats, told = Heartbeats(log), False
    while not stop.is_set() and (other := watch_other(heartbeats, instance, stop)) is not None:
        if other.service:
            raise Fenced(f"another process has taken this role and goes on: {other.words}")
        if not told:
            words = f"another process has taken this role: {other.words}; waits until it ends"
            tell(Event("role-lost", words))
            told = True
        stop.wait(_LOOK)
    return not stop.is_set()


def require_no_other(log: Log, file: str) -> None:
    """Raises UserError where a releaser of the study lives. file: the name of the study file."""
    other = watch_other(Heartbeats(log))
    if other is not None:
        raise UserError(
            f"{file}: another releaser of this study runs: {other.words}; it does what is to be"
            " done. To take its role, stop it first, or give --take-over"
        )
