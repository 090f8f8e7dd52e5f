"""What a user can mend: one clear line each, never a value that somebody reported."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

# Of the system's refusals those that are about what was named: starting again meets the same.
_LASTING = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
}


class UserError(Exception):
    """Bad input, a wrong file, a refusal. Each line says what is wrong, where, and what to do."""

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))


class Inconsistent(UserError):
    """The logs contradict each other or the study (fail closed): an operator must decide."""


def lasting(error: OSError) -> bool:
    """Whether what was named is at fault. Others, such as a full disk, may pass by themselves."""
    return error.errno in _LASTING


def unwritable(path: Path, error: OSError) -> Exception:
    """The error to raise where a file cannot be written: UserError if the path is at fault."""
    why = os.strerror(error.errno) if error.errno else "it takes no more"
    if lasting(error):
        return UserError(f"{path}: cannot be written: {why}")
    return OSError(error.errno or errno.EIO, f"cannot be written: {why}", str(path))
