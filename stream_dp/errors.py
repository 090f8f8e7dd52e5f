"""Errors for correction by a user. Their lines never quote a reported value."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

# Errors of the operating system that recur after a restart, because the named path is at fault.
_LASTING = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_LASTING_NUMBERS = {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTEMPTY}


class UserError(Exception):
    """Wrong input or a refused action. `lines` state the fault, the key or file, and the remedy."""

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))


class NotThere(UserError):
    """A name or a period asks for what does not exist."""


class Inconsistent(UserError):
    """The logs or the study contradict themselves: the service stops for an operator to decide."""


def visible(text: str) -> str:
    """Escapes control characters, ends of lines and marks of writing direction in a text."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def missing_extra(fault: str, extra: str) -> UserError:
    """The error for a package that is not installed. fault: what lacks it. extra: that has it."""
    return UserError(f"{fault}; in a clone of stream-dp: pip install '.[{extra}]'")


def is_lasting(error: OSError) -> bool:
    """Whether the named path is at fault. A full disk, for example, may be temporary."""
    return isinstance(error, _LASTING) or error.errno in _LASTING_NUMBERS


def write_error(path: object, error: OSError) -> Exception:
    """The error to raise where a file cannot be written: UserError if its name is at fault."""
    why = os.strerror(error.errno) if error.errno else ""
    if is_lasting(error):
        return UserError(f"{path}: cannot be written: {why or 'there is no such place'}")
    fault = f"cannot be written: {why or 'it takes no more'}"
    return OSError(error.errno or errno.EIO, fault, str(path))
