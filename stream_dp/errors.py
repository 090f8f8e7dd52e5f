"""Errors that a user can correct. Their lines never quote a reported value."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

# Errors of the operating system that recur after a restart, as the named path is at fault.
_LASTING = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_LASTING_NUMBERS = {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY}


class UserError(Exception):
    """Wrong input or a refused action. Each line says what is wrong, where, and what to do."""

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))


class Inconsistent(UserError):
    """The logs contradict each other or the study: the service stops for an operator to decide."""


def is_lasting(error: OSError) -> bool:
    """Whether the named path is at fault. Other errors, such as a full disk, may be temporary."""
    return isinstance(error, _LASTING) or error.errno in _LASTING_NUMBERS


def write_error(place: object, error: OSError) -> Exception:
    """The error to raise where a file cannot be written: UserError if its name is at fault."""
    why = os.strerror(error.errno) if error.errno else ""
    if is_lasting(error):
        return UserError(f"{place}: cannot be written: {why or 'there is no such place'}")
    words = f"cannot be written: {why or 'it takes no more'}"
    return OSError(error.errno or errno.EIO, words, str(place))
