"""Starts a process that answers in forks of itself, and asks it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from threading import Lock
from typing import Any

from .forks import BEGIN, HEAD, Work

_LARGEST = 64 << 20  # bytes of an answer
_PATIENCE = 1.0  # seconds until a process that does not end is killed
# A fork uses one processor.
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Gone(Exception):
    """The process has ended, or it takes no more questions."""


class Failed(Exception):
    """A fork ended without an answer: it needed more time or memory than it gets."""


class Workers:
    """A process that answers in forks of itself.

    command: arguments of the Python interpreter. What they run writes one line of JSON once it can
        answer.
    """

    def __init__(self, *command: str) -> None:
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                # -P: modules are never imported from the current folder.
                [sys.executable, "-P", *command],
                stdin=there.fileno(),
                stdout=subprocess.PIPE,
                env={**os.environ, **_THREADS},
                start_new_session=True,  # a terminal's signals are for this process
            )
        here.setblocking(False)
        self._asked = here
        self._lock = Lock()

    def begun(self) -> dict[str, Any] | None:
        """Waits for the line that the process writes; None where it ended without one."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            line = output.readline()
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            return None
        return said

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def retire(self) -> None:
        """Takes no more questions; the process ends once those that were asked are answered."""
        with self._lock:
            self._asked.close()

    def stop(self) -> None:
        """Ends the process."""
        self.retire()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def ask(self, question: Work, seconds: float) -> Work:
        """The answer to a question. Raises Gone, Failed.

        seconds: until the fork ends with or without an answer; it ends where this task does too.
        """
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here:
            here.setblocking(False)
            with there, self._lock:
                try:
                    socket.send_fds(self._asked, [BEGIN.pack(seconds)], [there.fileno()])
                except (OSError, ValueError):
                    raise Gone from None
            try:
                await loop.sock_sendall(here, question.encoded())
                return await _answer(here)
            except OSError:
                raise Failed from None


async def _answer(connection: socket.socket) -> Work:
    """What a fork writes. Raises Failed where it ends before its end."""
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
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        with suppress(OSError, ValueError):
            loop.remove_reader(connection)


async def _exactly(connection: socket.socket, size: int) -> bytes:
    loop, parts = asyncio.get_running_loop(), []
    while size:
        part = await loop.sock_recv(connection, min(size, 1 << 20))
        if not part:
            raise Failed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
