"""The identity of a file on its disk, and the mark beside a log's file.

A copy has a different identity; a restart or a rename keeps it. The identity is the inode number
and, if the file system stores it, the file's creation time. `cp` with any options, `tar`, `rsync`
and a backup restored beside the original make a new file. These keep the identity: `mv` inside a
file system, writing, a restart of the machine, and a device mounted under another number (so the
device is not part of the identity). An extended attribute would not do: `cp -a` copies it. Two
events stay unseen: a copy of the disk or its snapshot, and bytes written over those of the file.

The mark is a few bytes that no copy of the log's file brings back. The owner of a role writes it
after each commit. A log that is restored over the same file keeps the mark of the newer log, so the
two contradict each other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
from contextlib import suppress
from pathlib import Path

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
