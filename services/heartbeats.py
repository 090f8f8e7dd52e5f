"""Heartbeats: each process says in the log, every few seconds, that it lives. Confidential.

A releaser writes its heartbeats as the owner of its role. So an idle releaser notices within
seconds that another one has taken the role, and the last heartbeat of a releaser is always one of
the process that took it last. A heartbeat says what a process waits for and holds no count.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Literal

import msgspec

from stream_dp.log.base import Log, LogError, Missing, Positions, Record
from stream_dp.log.message import canonical
from stream_dp.privacy.noise import system_entropy
from stream_dp.topics import HEARTBEATS, PROCESSES

from .following import following
from .output import failure

BEAT = 5.0  # seconds between two heartbeats
LOST = 3 * BEAT  # seconds without a heartbeat after which a process counts as dead

Process = Literal["releaser", "aggregator", "worker"]


class Waiting(msgspec.Struct, frozen=True):
    """What a process waits for.

    event: a name of `events.KINDS`.
    message: the line that the operator was told.
    since: Unix seconds.
    """

    event: str
    message: str
    since: float


class Heartbeat(msgspec.Struct, frozen=True):
    """What a process says of itself.

    instance: a random name of this process, or of its present ownership of a role.
    host, pid: for the operator.
    birth: identifies the process on its machine; empty where the system does not tell.
    started: Unix seconds.
    service: whether it stays where there is nothing to do now.
    waits: what it waits for; None where it works.
    ended: its exit code, in its last heartbeat.
    """

    process: Process
    instance: str
    host: str
    pid: int
    birth: str
    started: float
    service: bool
    waits: Waiting | None = None
    ended: int | None = None

    @property
    def words(self) -> str:
        """Where the process runs."""
        return f"process {self.pid} on {self.host}"

    @property
    def surely_dead(self) -> bool:
        """Whether this machine knows that the process has ended."""
        if self.ended is not None:
            return True
        machine, _, begun = self.birth.rpartition(" ")
        return bool(begun) and machine == _machine() and begun != _begun(self.pid)


def heartbeat_record(beat: Heartbeat) -> Record:
    value = canonical(msgspec.to_builtins(beat))
    part = PROCESSES.index(beat.process)
    return Record(HEARTBEATS, value, beat.process.encode(), partition=part)


def new_heartbeat(process: Process, *, service: bool) -> Heartbeat:
    """The first heartbeat of this process, or of a new ownership of its role."""
    begun = _begun(os.getpid())
    return Heartbeat(
        process=process,
        instance=system_entropy(16).hex(),
        host=socket.gethostname(),
        pid=os.getpid(),
        birth=f"{_machine()} {begun}" if begun else "",
        started=time.time(),
        service=service,
    )


def _machine() -> str:
    """The machine since its last start, and this process's namespace of process ids."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return ""


def _begun(pid: int) -> str:
    """When a process of this machine began, in the kernel's ticks; empty for none that runs."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


@dataclass(frozen=True)
class Heard:
    """A heartbeat as it lies in the log. time: Unix seconds, by the clock of the log."""

    beat: Heartbeat
    time: float


@dataclass
class Heartbeats:
    """The last heartbeat of each kind of process, as far as the topic was read."""

    log: Log
    last: dict[Process, Heard] = field(default_factory=dict)
    _positions: Positions | None = None

    def refresh(self) -> None:
        """Reads what is new. Raises LogError, but for a topic that is not there yet."""
        with suppress(Missing):
            if self._positions is None:
                self._positions = dict(self.log.describe(HEARTBEATS).first)
            for record in following(self.log, HEARTBEATS, self._positions):
                with suppress(msgspec.MsgspecError):
                    beat = msgspec.json.decode(record.value or b"", type=Heartbeat)
                    self.last[beat.process] = Heard(beat, record.time / 1000)


def watch_other(
    heartbeats: Heartbeats, own: str = "", stop: Event | None = None
) -> Heartbeat | None:
    """Another releaser that lives now; None if there is none.

    A heartbeat that comes while this function looks is a proof that does not depend on clocks, so
    this takes up to LOST seconds where the last heartbeat is one of an unknown end.

    own: the instance of this process. stop: ends the watch when set.
    """
    heartbeats.refresh()
    first, deadline = heartbeats.last.get("releaser"), time.monotonic() + LOST
    while True:
        heard = heartbeats.last.get("releaser")
        if heard is None or heard.beat.instance == own or heard.beat.surely_dead:
            return None
        if heard != first:
            return heard.beat
        if time.monotonic() > deadline or (stop or Event()).wait(BEAT / 10):
            return None
        heartbeats.refresh()


class Pulse:
    """A thread that writes the heartbeats of this process, from `__enter__` to `__exit__`.

    write: appends the record, or commits it as the owner of a role.
    first: the first heartbeat.
    waits: gives what the process waits for.
    strict: whether an error of `write` ends the process: `require` raises it.
    ailing: called at once, in the thread, for such an error.
    """

    def __init__(
        self,
        write: Callable[[Iterable[Record]], None],
        first: Heartbeat,
        *,
        waits: Callable[[], Waiting | None] = lambda: None,
        strict: bool = False,
        ailing: Callable[[], None] = lambda: None,
    ) -> None:
        self._write, self.beat, self._waits = write, first, waits
        self._strict, self._ailing = strict, ailing
        self._stop, self._thread = Event(), Thread(target=self._run, daemon=True, name="pulse")
        self._failure: LogError | None = None

    def __enter__(self) -> Pulse:
        self._say(self.beat)
        self.require()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._say(msgspec.structs.replace(self.beat, ended=_exit_code(error)))

    def require(self) -> None:
        """Raises the error that a heartbeat met."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stop.wait(BEAT):
            self._say(msgspec.structs.replace(self.beat, waits=self._waits()))

    def _say(self, beat: Heartbeat) -> None:
        if self._failure is not None:
            return
        try:
            self._write([heartbeat_record(beat)])
        except LogError as error:
            if self._strict:
                self._failure = error
                self._ailing()


def _exit_code(error: BaseException | None) -> int:
    """The exit code of a process that ends with this error."""
    if error is None:
        return 0
    try:
        return failure(error)[0]
    except BaseException:
        return 1
