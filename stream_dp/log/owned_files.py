"""The identity of a file on its disk, the mark beside a log's file, and the lock of its owner.

A copy has a different identity; a restart or a rename keeps it. The identity is the inode number
and, if the file system stores it, the file's creation time. `cp` with any options, `tar`, `rsync`
and a backup restored beside the original make a new file. These keep the identity: `mv` inside a
file system, writing, a restart of the machine, and a device mounted under another number (so the
device is not part of the identity). An extended attribute would not do: `cp -a` copies it. Two
events stay unseen: a copy of the disk or its snapshot, and bytes written over those of the file.

The mark is a few bytes that no copy of the log's file brings back. The owner of a role writes it
after each commit. A log that is restored over the same file keeps the mark of the newer log, so the
two contradict each other.

The lock of a role is held by a single process until it ends or dies. It is a record lock, like
SQLite's. A child does not inherit a record lock, in whatever way it is started, so no child keeps
the role of a parent that was killed. (`flock` and open-file locks belong to the descriptor, which
every fork copies.) A record lock has two weaknesses. It does not keep two owners within one process
apart: `_owned` does. And the process loses the lock when it closes any descriptor of the file: each
owner writes a token into the file, so that an owner that lost the lock sees the token of its
successor.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from uuid import uuid4

from stream_dp.errors import write_error

_AT_FDCWD, _BTIME, _SIZE = -100, 0x800, 256


def identity_of_file(path: Path) -> str:
    """Returns INODE/NANOSECONDS. The time is the file's creation, 0 if unknown."""
    return f"{path.stat().st_ino}/{_born(path)}"


def is_file_identity(identity: str) -> bool:
    """Tells whether a text is the identity of a file."""
    return re.fullmatch(r"[0-9]+/[0-9]+", identity) is not None


def same_identity(first: str, second: str) -> bool:
    """Tells whether two identities belong to the same file. An unknown creation time agrees with
    any.

    Other identities, such as a topic's, are compared as text.
    """
    if not (is_file_identity(first) and is_file_identity(second)):
        return first == second
    (inode, born), (inode_too, born_too) = first.split("/"), second.split("/")
    return inode == inode_too and (born == born_too or "0" in {born, born_too})


def _born(path: Path) -> int:
    """Returns the creation time in Unix nanoseconds, 0 if unknown.

    Python has no statx: the function of the C library is called.
    """
    other_systems = getattr(path.stat(), "st_birthtime", None)
    if other_systems is not None:
        return round(float(other_systems) * 1e9)
    try:
        statx = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return 0
    buffer = ctypes.create_string_buffer(_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _BTIME, buffer):
        return 0
    (mask,) = struct.unpack_from("I", buffer.raw)
    seconds, nanoseconds = struct.unpack_from("qI", buffer.raw, 80)
    return int(seconds * 10**9 + nanoseconds) if mask & _BTIME else 0


_MARK_SIZE = 128  # bytes; less than a sector, which a disk writes whole


def mark_path(log: Path, role: str) -> Path:
    """Returns the path of a role's mark, beside the log's file `log`."""
    return log.with_name(f"{log.name}.{role}.mark")


def read_mark(path: Path) -> bytes:
    """Reads the mark in a file; empty if the file does not exist."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return file.read(_MARK_SIZE).strip(b"\0 \n")
    return b""


def write_mark(path: Path, content: bytes) -> None:
    """Writes the mark, which is durable on return. Raises OSError, UserError."""
    try:
        opened = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            first = os.fstat(opened).st_size == 0
            os.pwrite(opened, content.ljust(_MARK_SIZE - 1) + b"\n", 0)
            os.fsync(opened)
        finally:
            os.close(opened)
        if first:
            sync_folder(path.parent)
    except OSError as error:
        raise write_error(path, error) from None


def make_folder(folder: Path, *, public: bool = False) -> None:
    """Makes a folder and its missing parents, durable on return. Raises OSError.

    public: whether others may read them; by default their mode is 0700.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o755 if public else 0o700, exist_ok=True)
        sync_folder(path.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def sync_folder(folder: Path) -> None:
    """Makes the names of the files in a folder durable, if the file system can. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # as a file system without such a call says
            raise
    finally:
        os.close(opened)


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
