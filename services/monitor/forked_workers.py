"""Starts processes that answer in forks (`forks.py`), and sends questions to them."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import IO

from stream_dp.json_object import Json

from .forks import BEGIN, HEAD, ORDER, Work

_LARGEST = 64 << 20  # bytes of an answer
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
        """Waits for the end of a process, and kills a process without an end."""
        if not self._poll.poll(_STOP_TIMEOUT * 1000):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


class Zygote:
    """Starts processes as forks of a loaded process, and restarts the loaded process if it ended.

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
                socket.send_fds(orders, [ORDER.pack(len(order))], [stdin, writes])
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
        """Ends the zygote; its forks go on."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        """Ends the process, by force after a time."""
        if self._orders is not None:
            self._orders.close()
        if self._process is not None:
            try:
                self._process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._orders = self._process = None


class Gone(Exception):
    """The process has ended or refuses new questions."""


class Failed(Exception):
    """A fork ended without an answer because of the limits of time and memory."""


class Workers:
    """A process that answers in forks of itself.

    zygote: forks the process, with the arguments. It writes one line of JSON when ready.

    Raises Lost.
    """

    def __init__(self, zygote: Zygote, *arguments: str) -> None:
        local, remote = socket.socketpair()
        with remote:
            self._process, self._output = zygote.forked(arguments, remote.fileno())
        local.setblocking(False)
        self._questions = local
        self._lock = Lock()

    def first_line(self) -> Json | None:
        """Waits for the first line of the process, JSON; returns None after a failed start."""
        with self._output as output:
            line = output.readline()
        try:
            message: Json = json.loads(line)
        except ValueError:
            return None
        return message

    @property
    def alive(self) -> bool:
        return self._process.alive

    def retire(self) -> None:
        """Refuses new questions; the process ends after the open answers."""
        with self._lock:
            self._questions.close()

    def stop(self) -> None:
        """Ends the process."""
        self.retire()
        self._process.end()

    async def ask(self, question: Work, seconds: float) -> Work:
        """The answer to a question. Raises Gone, Failed.

        seconds: the deadline of the fork. A cancelled task ends the fork, too.
        """
        loop = asyncio.get_running_loop()
        local, remote = socket.socketpair()
        with local:
            local.setblocking(False)
            with remote, self._lock:
                try:
                    socket.send_fds(self._questions, [BEGIN.pack(seconds)], [remote.fileno()])
                except (OSError, ValueError):
                    raise Gone from None
            try:
                await loop.sock_sendall(local, question.encoded())
                return await _answer(local)
            except OSError:
                raise Failed from None


async def _answer(connection: socket.socket) -> Work:
    """Reads the answer of a fork. Raises Failed for an incomplete answer."""
    await _readable(connection)
    first, files, *_ = socket.recv_fds(connection, HEAD.size, 1)
    file = os.fdopen(files[0], "rb") if files else None
    try:
        data, body = HEAD.unpack(first + await _exactly(connection, HEAD.size - len(first)))
        if data + body > _LARGEST:
            raise Failed
        return Work(
            json.loads(await _exactly(connection, data)), await _exactly(connection, body), file
        )
    except BaseException:
        if file is not None:
            file.close()
        raise


async def _readable(connection: socket.socket) -> None:
    """Waits until there is something to read."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        with suppress(OSError, ValueError):
            loop.remove_reader(connection)


async def _exactly(connection: socket.socket, size: int) -> bytes:
    """Reads `size` bytes. Raises Failed if the connection ends before."""
    loop, chunks = asyncio.get_running_loop(), []
    while size:
        chunk = await loop.sock_recv(connection, min(size, 1 << 20))
        if not chunk:
            raise Failed
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
