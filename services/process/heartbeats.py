"""The lives of processes: heartbeats, which are records in the log, and ends. Confidential.

A releaser writes heartbeats as the owner of the releaser's role. So an idle releaser is fenced
within seconds after another releaser has taken the role, and the releaser's last heartbeat always
comes from the last owner. A heartbeat names the awaited event and holds no count.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Literal

import msgspec

from stream_dp.log.log import Log, LogError, Missing, Positions, Record, following
from stream_dp.log.message import canonical
from stream_dp.privacy.noise import system_entropy
from stream_dp.study.topics import HEARTBEATS, PROCESSES

from .command_output import failure

HEARTBEAT_INTERVAL = 5.0  # seconds between two heartbeats
# Seconds without a heartbeat after which a process counts as dead.
HEARTBEAT_TIMEOUT = 3 * HEARTBEAT_INTERVAL

Process = Literal["releaser", "aggregator", "worker"]


class Waiting(msgspec.Struct, frozen=True):
    """The event that a process waits for.

    event: a name of `events.KINDS`.
    message: the line that the operator was told.
    since: Unix seconds.
    """

    event: str
    message: str
    since: float


class Heartbeat(msgspec.Struct, frozen=True):
    """The state of a process, as reported by the process.

    instance: a random name of the process, or of the present ownership of a role.
    host, pid: for the operator.
    birth: identifies the process on the machine; empty on systems without /proc.
    started: Unix seconds.
    service: whether the process keeps running when idle.
    waits: the awaited event; None for a working process.
    ended: the exit code, in the last heartbeat.
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
        """Whether the process has certainly ended, by the knowledge of this machine."""
        if self.ended is not None:
            return True
        machine, _, begun = self.birth.rpartition(" ")
        return bool(begun) and machine == _machine() and begun != _start_ticks(self.pid)


def heartbeat_record(beat: Heartbeat) -> Record:
    value = canonical(msgspec.to_builtins(beat))
    partition = PROCESSES.index(beat.process)
    return Record(HEARTBEATS, value, beat.process.encode(), partition=partition)


def new_heartbeat(process: Process, *, service: bool) -> Heartbeat:
    """The first heartbeat of this process, or of a new ownership of its role."""
    begun = _start_ticks(os.getpid())
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
    """Identifies the machine since the last start, and this process's namespace of process ids."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return ""


def _start_ticks(pid: int) -> str:
    """The start of a process of this machine in the kernel's ticks; empty for an ended process."""
    with suppress(OSError):
        # After the command's name come the fields of proc(5) from 3 on: fields[0] is the state, Z
        # for a zombie, and fields[19] the start, which is field 22.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


@dataclass(frozen=True)
class ReceivedHeartbeat:
    """A heartbeat in the log. time: the append time in Unix seconds."""

    beat: Heartbeat
    time: float


@dataclass
class Heartbeats:
    """The last heartbeat of every kind of process, up to the last `refresh`."""

    log: Log
    last: dict[Process, ReceivedHeartbeat] = field(default_factory=dict)
    _positions: Positions | None = None

    def refresh(self) -> list[Heartbeat]:
        """Reads new heartbeats, and returns them; a missing topic is empty. Raises LogError."""
        beats = list[Heartbeat]()
        with suppress(Missing):
            if self._positions is None:
                self._positions = dict(self.log.describe(HEARTBEATS).first)
            for record in following(self.log, HEARTBEATS, self._positions):
                with suppress(msgspec.MsgspecError):
                    beat = msgspec.json.decode(record.value or b"", type=Heartbeat)
                    self.last[beat.process] = ReceivedHeartbeat(beat, record.time / 1000)
                    beats.append(beat)
        return beats


def watch_other(
    heartbeats: Heartbeats, own_instance: str = "", stop: Event | None = None
) -> Heartbeat | None:
    """Waits for a heartbeat of a second releaser; returns the heartbeat, or None.

    A heartbeat during the watch is a proof that does not depend on clocks. So the watch takes up to
    HEARTBEAT_TIMEOUT seconds if the end of the last releaser is unknown. If the last heartbeat is
    this process's own, whoever has taken its role writes one soon: the watch takes up to
    HEARTBEAT_INTERVAL seconds.

    own_instance: the instance of this process.
    stop: ends the watch when set.
    """
    heartbeats.refresh()
    first, begun = heartbeats.last.get("releaser"), time.monotonic()
    while True:
        heard = heartbeats.last.get("releaser")
        if heard is None or heard.beat.surely_dead:
            return None
        own = heard.beat.instance == own_instance
        if heard != first and not own:
            return heard.beat
        patience = HEARTBEAT_INTERVAL if own else HEARTBEAT_TIMEOUT
        waited = time.monotonic() - begun
        if waited > patience or (stop or Event()).wait(HEARTBEAT_INTERVAL / 10):
            return None
        heartbeats.refresh()


class Pulse:
    """A thread that writes the heartbeats of this process, from `__enter__` to `__exit__`.

    write: appends the record, or commits it as the owner of a role.
    first: the first heartbeat.
    waits: returns the awaited event, or None.
    strict: whether an error of `write` ends the process: `require` raises it.
    on_failure: called in the thread, at once after such an error.
    """

    def __init__(
        self,
        write: Callable[[Iterable[Record]], None],
        first: Heartbeat,
        *,
        waits: Callable[[], Waiting | None] = lambda: None,
        strict: bool = False,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._write, self.beat, self._waits = write, first, waits
        self._strict, self._on_failure = strict, on_failure
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
        """Raises the error of a failed heartbeat."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stop.wait(HEARTBEAT_INTERVAL):
            self._say(msgspec.structs.replace(self.beat, waits=self._waits()))

    def _say(self, beat: Heartbeat) -> None:
        """Writes a heartbeat; if `strict`, a failure ends the pulse."""
        if self._failure is not None:
            return
        try:
            self._write([heartbeat_record(beat)])
        except LogError as error:
            if self._strict:
                self._failure = error
                self._on_failure()


def _exit_code(error: BaseException | None) -> int:
    """The exit code of a process that ends with this error."""
    if error is None:
        return 0
    try:
        return failure(error)[0]
    except BaseException:
        return 1


def end_with_parent() -> None:
    """Ends this process when the standard input ends. Written records are already decided."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def stop_on_signals(stop: threading.Event) -> None:
    """Sets `stop` at SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
