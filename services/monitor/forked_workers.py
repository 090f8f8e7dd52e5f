"""Sends questions to a process that answers in forks (`forks.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import suppress
from threading import Lock

from stream_dp.json_object import Json

from .forks import BEGIN, HEAD, Work
from .zygote import Zygote

_LARGEST = 64 << 20  # bytes of an answer


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
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        with suppress(OSError, ValueError):
            loop.remove_reader(connection)


async def _exactly(connection: socket.socket, size: int) -> bytes:
    loop, chunks = asyncio.get_running_loop(), []
    while size:
        chunk = await loop.sock_recv(connection, min(size, 1 << 20))
        if not chunk:
            raise Failed
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
