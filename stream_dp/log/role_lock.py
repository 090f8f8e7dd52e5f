"""The kernel lock of a role on a file, held by a single process until it ends or dies.

It is a record lock, like SQLite's. A child does not inherit a record lock, in whatever way it
is started, so no child keeps the role of a parent that was killed. (`flock` and open-file locks
belong to the descriptor, which every fork copies.)

A record lock has two weaknesses. It does not keep two owners within one process apart: `_owned`
does. And the process loses the lock when it closes any descriptor of the file: each owner writes
a token into the file, so that an owner that lost the lock sees the token of its successor.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from uuid import uuid4

from stream_dp.errors import write_error

# Seconds to wait for a process that has the role and may be ending.
PATIENCE = 5.0
_POLL = 0.05

_owned: dict[tuple[int, int], int] = {}  # device and inode of a file: the process that owns it
_taking = Lock()


class Taken(Exception):
    """Another process owns the role."""


class RoleLock:
    """The lock on the file at `path`, opened with the file descriptor `descriptor`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self._process, self._token = os.getpid(), uuid4().bytes
        os.pwrite(descriptor, self._token, 0)

    def holds(self) -> bool:
        """Tells whether this process was the last to take the lock of the file at `path`."""
        try:
            return (
                os.getpid() == self._process
                and os.path.samestat(os.fstat(self._descriptor), self._path.stat())
                and os.pread(self._descriptor, len(self._token), 0) == self._token
            )
        except FileNotFoundError:
            return False


@contextmanager
def role_lock(path: Path) -> Iterator[RoleLock]:
    """Takes the role; waits up to PATIENCE seconds for an owner to end.

    Raises Taken; UserError for a faulty path, OSError with the path for a full disk.
    """
    with _taking:
        # The file of a role that this process has must not be opened again.
        with suppress(FileNotFoundError):
            if _owned.get(_identity(path.stat())) == os.getpid():
                raise Taken
        with _write_errors(path):
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        identity = _identity(os.fstat(descriptor))
        _owned[identity] = os.getpid()
    try:
        with _write_errors(path):
            _wait(descriptor)
            lock = RoleLock(path, descriptor)
        yield lock
    finally:
        with _taking:
            os.close(descriptor)
            del _owned[identity]


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Names the file in the errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from None


def _wait(descriptor: int) -> None:
    """Waits for the lock. Raises Taken after PATIENCE seconds."""
    deadline = monotonic() + PATIENCE
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):  # POSIX allows either
            if monotonic() >= deadline:
                raise Taken from None
        sleep(_POLL)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino
