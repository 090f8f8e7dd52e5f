"""Checks of the modes of confidential files: files open to others are closed, or refused.

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
def reporting_mended_modes(tell: Callable[[str], None]) -> Iterator[None]:
    """Reports every mended mode to `tell` inside the block."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def protect(paths: Iterable[Path]) -> None:
    """Removes the rights of the group and of other users from world-accessible paths.

    paths: files and folders; missing paths are skipped.

    Raises UserError for another user's file that is readable for everybody.
    """
    for path in paths:
        with suppress(FileNotFoundError):
            _protect(path, path.stat())


def _protect(path: Path, status: os.stat_result) -> None:
    """Makes a file private, with a notice. Raises UserError for another user's file."""
    mode = stat.S_IMODE(status.st_mode)
    if not mode & _OTHERS:
        return
    if os.geteuid() not in {0, status.st_uid}:
        if stat.S_ISDIR(status.st_mode):
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
