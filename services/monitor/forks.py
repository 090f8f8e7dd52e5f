"""Answers every question in a fork of a loaded process, which is itself a fork of another.

The first process loads the libraries once and forks for each order, such as a public log to read.

Both processes have a single thread, so that forking is safe at any time, and every fork begins with
the data of its process. A question arrives as a socket over the standard input. The fork reads the
question from the socket and writes the answer there. A fork ends at the deadline, or when the other
end of the socket is closed, together with all child processes. The process ends with the standard
input.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stream_dp.json_object import Json

MEMORY = 1 << 30  # bytes of addresses that a fork may take beside those that the process has
_LARGEST = 1 << 20  # bytes of a question
HEAD = struct.Struct("!QQ")  # bytes of JSON, and bytes that follow it
ORDER = struct.Struct("!I")  # bytes of the arguments, JSON; two open files come along
BEGIN = struct.Struct("!d")  # seconds until a deadline; with it comes a socket


@dataclass(frozen=True)
class Work:
    """A question to a fork or its answer: plain data with bytes.

    file: an open file to send along, or None.
    packed: the body by gzip; empty where it is not kept.
    """

    data: Json
    body: bytes = b""
    file: IO[bytes] | None = None
    packed: bytes = b""

    def encoded(self) -> bytes:
        data = json.dumps(self.data).encode()
        return HEAD.pack(len(data), len(self.body)) + data + self.body


def answer_in_forks(answer: Callable[[Work], Work]) -> None:
    """Serves until the end of standard input and of all forks. Each fork calls `answer` once."""
    gc.collect()
    gc.freeze()  # so that a collection in a fork copies no memory
    _Parent(answer).serve()


class _Parent:
    def __init__(self, answer: Callable[[Work], Work]) -> None:
        self._answer = answer
        self._questions = socket.socket(fileno=os.dup(sys.stdin.fileno()))
        with Path(os.devnull).open() as nothing:  # no fork keeps the questions open
            os.dup2(nothing.fileno(), sys.stdin.fileno())
        self._forks: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self._ended, wakes = os.pipe()
        for end in (self._ended, wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes)

    def serve(self) -> None:
        """Forks for every question, until the questions end and all forks have ended."""
        questions_fd, wakeup_fd = self._questions.fileno(), self._ended
        self._poll.register(questions_fd, select.POLLIN)
        self._poll.register(wakeup_fd, select.POLLIN)
        while self._questions.fileno() >= 0 or self._forks:
            for fd, _ in self._poll.poll():
                if fd == wakeup_fd:
                    with suppress(BlockingIOError):
                        os.read(wakeup_fd, 4096)
                elif fd == questions_fd:
                    self._begin()
                else:  # nobody waits for this answer any more
                    self._kill(next(pid for pid, s in self._forks.items() if s.fileno() == fd))
            self._reap()

    def _begin(self) -> None:
        """Starts a fork for the next question."""
        message, sockets, *_ = socket.recv_fds(self._questions, BEGIN.size, 1)
        if len(message) < BEGIN.size or not sockets:
            self._poll.unregister(self._questions)
            self._questions.close()
            return
        connection = socket.socket(fileno=sockets[0])
        pid = os.fork()
        if pid:
            with suppress(OSError):
                os.setpgid(pid, pid)
            self._forks[pid] = connection
            self._poll.register(connection, 0)  # its end alone
            return
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._questions.close()
            for sibling in self._forks.values():
                sibling.close()
            _work(connection, BEGIN.unpack(message)[0], self._answer)
        except OSError:
            pass  # nobody waits for the answer
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def _kill(self, pid: int) -> None:
        self._poll.unregister(self._forks[pid])
        os.killpg(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Kills the process groups of ended forks, and closes the sockets."""
        for pid in list(self._forks):
            # The fork keeps its number until it is waited for, so the group is its own.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                connection = self._forks.pop(pid)
                with suppress(KeyError):
                    self._poll.unregister(connection)
                connection.close()


def _work(connection: socket.socket, seconds: float, answer: Callable[[Work], Work]) -> None:
    """Answers a question within limits; the end of the time ends the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    with suppress(OSError, ValueError):  # there is no /proc but on Linux
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        # A machine without memory ends a fork first, and not what serves the others.
        Path("/proc/self/oom_score_adj").write_text("1000")
    with connection:
        reply = answer(_question(connection))
        files = [] if reply.file is None else [reply.file.fileno()]
        encoded = reply.encoded()
        socket.send_fds(connection, [encoded[:1]], files)
        connection.sendall(encoded[1:])


def _question(connection: socket.socket) -> Work:
    data, body = HEAD.unpack(_exactly(connection, HEAD.size))
    if data + body > _LARGEST:
        raise ValueError("a question is too large")
    return Work(json.loads(_exactly(connection, data)), _exactly(connection, body))


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Reads `size` bytes. Raises ConnectionError if the connection ends before."""
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError
    return data


def fork_for_orders(run: Callable[..., None]) -> None:
    """Forks for every order on the standard input, until its end; a fork calls `run`.

    The process has a single thread. A fork has the standard input and output of its order.
    """
    orders = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    gc.collect()
    gc.freeze()  # so that a collection in a fork copies no memory
    while True:
        message, files, *_ = socket.recv_fds(orders, ORDER.size, 2, socket.MSG_WAITALL)
        if len(message) < ORDER.size or len(files) != 2:
            return
        arguments = orders.recv(ORDER.unpack(message)[0], socket.MSG_WAITALL)
        try:
            pid = os.fork()
        except OSError:
            pid = None
        if pid == 0:
            orders.close()
            _run_fork(run, arguments, files)
        for file in files:
            os.close(file)
        _send_process(orders, pid)


def _send_process(orders: socket.socket, pid: int | None) -> None:
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


def _run_fork(run: Callable[..., None], arguments: bytes, files: Sequence[int]) -> None:
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
