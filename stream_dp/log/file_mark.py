"""The mark beside a log's file: a few bytes that no copy of the log's file brings back.

The owner of a role writes the mark after each commit. A log that is restored over the same file
keeps the mark of the newer log, so the two contradict each other.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from stream_dp.errors import write_error

_SIZE = 128  # bytes; less than a sector, which a disk writes whole


def mark_path(log: Path, role: str) -> Path:
    """Returns the path of a role's mark, beside the log's file `log`."""
    return log.with_name(f"{log.name}.{role}.mark")


def read_mark(path: Path) -> bytes:
    """Reads the mark in a file; empty if the file does not exist."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return file.read(_SIZE).strip(b"\0 \n")
    return b""


def write_mark(path: Path, content: bytes) -> None:
    """Writes the mark, which is durable on return. Raises OSError, UserError."""
    try:
        opened = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            first = os.fstat(opened).st_size == 0
            os.pwrite(opened, content.ljust(_SIZE - 1) + b"\n", 0)
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
