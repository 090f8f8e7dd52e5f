"""A process that answers each question in a fork of itself.

The process has one thread, so that it can fork at any time, and every fork begins with all that
the process has read and computed. A question arrives as a socket over standard input. The fork
reads the question from the socket and writes its answer there. A fork ends at its deadline, and as
soon as nobody holds the other end of its socket; whatever the fork has started ends with it. The
process ends with its standard input.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MEMORY = 1 << 30  # bytes of addresses that a fork may take beside those that the process has
_LARGEST = 1 << 20  # bytes of a question
HEAD = struct.Struct("!QQ")  # bytes of JSON, and bytes that follow it
BEGIN = struct.Struct("!d")  # seconds until a deadline; with it comes a socket


@dataclass(frozen=True)
class Work:
    """What a fork says, or is asked: plain data with bytes.

    file: sent as an open file; None where there is none.
    """

    data: dict[str, Any]
    body: bytes = b""
    file: IO[bytes] | None = None

    def encoded(self) -> bytes:
        data = json.dumps(self.data).encode()
        return HEAD.pack(len(data), len(self.body)) + data + self.body


def answer_in_forks(answer: Callable[[Work], Work]) -> None:
    """Serves until standard input has ended and every fork too. Each fork calls `answer` once."""
    gc.collect()
    gc.freeze()  # so that a collection in a fork copies no memory
    _Parent(answer).serve()


class _Parent:
    def __init__(self, answer: Callable[[Work], Work]) -> None:
        self._answer = answer
        self._asked = socket.socket(fileno=os.dup(sys.stdin.fileno()))
        self._forks: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self._ended, wakes = os.pipe()
        for end in (self._ended, wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes)

    def serve(self) -> None:
        asked, ended = self._asked.fileno(), self._ended
        self._poll.register(asked, select.POLLIN)
        self._poll.register(ended, select.POLLIN)
        while self._asked.fileno() >= 0 or self._forks:
            for fd, _ in self._poll.poll():
                if fd == ended:
                    with suppress(BlockingIOError):
                        os.read(ended, 4096)
                elif fd == asked:
                    self._begin()
                else:  # nobody waits for this answer any more
                    self._kill(next(pid for pid, s in self._forks.items() if s.fileno() == fd))
            self._bury()

    def _begin(self) -> None:
        """Forks for the next question."""
        message, sockets, *_ = socket.recv_fds(self._asked, BEGIN.size, 1)
        if len(message) < BEGIN.size or not sockets:
            self._poll.unregister(self._asked)
            self._asked.close()
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
            self._asked.close()
            for other in self._forks.values():
                other.close()
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

    def _bury(self) -> None:
        """Ends what ended forks have left, and closes their sockets."""
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
    """Answers one question within limits: what exceeds the time ends the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    with suppress(OSError, ValueError):  # there is no /proc but on Linux
        most = _addresses() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # A machine without memory ends a fork first, and not what serves the others.
        Path("/proc/self/oom_score_adj").write_text("1000")
    with connection:
        said = answer(_question(connection))
        files = [] if said.file is None else [said.file.fileno()]
        encoded = said.encoded()
        socket.send_fds(connection, [encoded[:1]], files)
        connection.sendall(encoded[1:])


def _addresses() -> int:
    """Bytes of addresses that this process has."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def _question(connection: socket.socket) -> Work:
    data, body = HEAD.unpack(_exactly(connection, HEAD.size))
    if data + body > _LARGEST:
        raise ValueError("a question is too large")
    return Work(json.loads(_exactly(connection, data)), _exactly(connection, body))


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise ConnectionError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
