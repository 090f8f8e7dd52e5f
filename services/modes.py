"""Confidential files that others may read: mended with a line that says so, or refused.

A restored file has the mode that the restoring program gives it, often one for everybody.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from stream_dp.errors import UserError, write_error

_OTHERS = stat.S_IRWXO
_OWNER = stat.S_IRWXU


def _print(line: str) -> None:
    print(f"stream-dp: {line}", file=sys.stderr, flush=True)


_tell: ContextVar[Callable[[str], None]] = ContextVar("tell", default=_print)


@contextmanager
def mending_told(tell: Callable[[str], None]) -> Iterator[None]:
    """While a command runs, which is told of every file whose mode was mended."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def protect(paths: Iterable[Path]) -> None:
    """Takes every right from others, and from the group, where others have a right.

    paths: of files and folders, which need not exist.

    Raises UserError where a file of another user is readable for everybody.
    """
    for path in paths:
        with suppress(FileNotFoundError):
            _protect(path, path.stat())


def _protect(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OTHERS:
        return
    if os.geteuid() not in {0, found.st_uid}:
        if stat.S_ISDIR(found.st_mode):
            return  # a volume's; the files in it have modes of their own
        raise UserError(
            f"{path}: is confidential and open to every user (mode {mode:04o}), and belongs to"
            f" another user: have its owner run: chmod {mode & _OWNER:o} {path}"
        )
    try:
        path.chmod(mode & _OWNER)
    except OSError as error:
        raise write_error(path, error) from None
    _tell.get()(
        f"{path}: is confidential and was open to every user (mode {mode:04o}); its mode is"
        f" {mode & _OWNER:04o} now; whoever read it meanwhile may have a copy"
    )
