"""A loaded process that forks for each order, so that no fork loads the libraries again."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO

_ORDER = struct.Struct("!I")  # bytes of the arguments, JSON; two open files come along
_STOP_TIMEOUT = 1.0  # seconds until a process that does not end is killed
# A fork uses one processor.
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Lost(Exception):
    """The zygote ended before it forked."""


class ForkedProcess:
    """A process that a zygote forked. descriptor: of the process; it is closed with this object."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def alive(self) -> bool:
        return not self._poll.poll(0)

    def end(self) -> None:
        """Waits for the end of a process, and kills one that does not end."""
        if not self._poll.poll(_STOP_TIMEOUT * 1000):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


class Zygote:
    """Starts processes as forks of a loaded one, which it starts again if it ended.

    command: arguments of the Python interpreter. The program calls `fork_for_orders`.
    """

    def __init__(self, *command: str) -> None:
        self._command = command
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def forked(self, arguments: Sequence[str], stdin: int) -> tuple[ForkedProcess, IO[bytes]]:
        """A new process and its standard output. stdin: its standard input. Raises Lost."""
        reads, writes = os.pipe()
        output = os.fdopen(reads, "rb")
        order = json.dumps(arguments).encode()
        try:
            with self._lock:
                orders = self._running()
                socket.send_fds(orders, [_ORDER.pack(len(order))], [stdin, writes])
                orders.sendall(order)
                _, descriptors, *_ = socket.recv_fds(orders, 1, 1)
        except OSError:
            descriptors = []
        finally:
            os.close(writes)
        if not descriptors:
            output.close()
            raise Lost
        return ForkedProcess(descriptors[0]), output

    def _running(self) -> socket.socket:
        """The socket of a running zygote."""
        if self._orders is None or self._process is None or self._process.poll() is not None:
            self._end()
            local, remote = socket.socketpair()
            with remote:
                self._process = subprocess.Popen(
                    # -P: modules are never imported from the current folder.
                    [sys.executable, "-P", *self._command],
                    stdin=remote.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **_THREADS},
                    start_new_session=True,  # a terminal's signals are for this process
                )
            self._orders = local
        return self._orders

    def stop(self) -> None:
        """Ends the zygote; what it forked goes on."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self._process is not None:
            try:
                self._process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._orders = self._process = None


def fork_for_orders(run: Callable[..., None]) -> None:
    """Forks for every order on the standard input, until its end; a fork calls `run`.

    The process has a single thread. A fork has the standard input and output of its order.
    """
    orders = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    gc.collect()
    gc.freeze()  # so that a collection in a fork copies no memory
    while True:
        message, files, *_ = socket.recv_fds(orders, _ORDER.size, 2, socket.MSG_WAITALL)
        if len(message) < _ORDER.size or len(files) != 2:
            return
        arguments = orders.recv(_ORDER.unpack(message)[0], socket.MSG_WAITALL)
        try:
            pid = os.fork()
        except OSError:
            pid = None
        if pid == 0:
            orders.close()
            _run(run, arguments, files)
        for file in files:
            os.close(file)
        _answer(orders, pid)


def _answer(orders: socket.socket, pid: int | None) -> None:
    """Sends the descriptor of a fork; none for a fork that failed or has ended."""
    with suppress(OSError):
        if pid is not None:
            descriptor = os.pidfd_open(pid)
            try:
                socket.send_fds(orders, [b"+"], [descriptor])
            finally:
                os.close(descriptor)
            return
    orders.sendall(b"-")


def _run(run: Callable[..., None], arguments: bytes, files: Sequence[int]) -> None:
    """Runs the program of a fork, and ends the fork."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        run(*json.loads(arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
