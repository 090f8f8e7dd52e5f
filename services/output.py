"""The results of commands: exit codes, and texts that are safe on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stream_dp.errors import Inconsistent, UserError, is_lasting
from stream_dp.log.base import Damaged, Fenced, LogError, Unavailable, UnknownCommit

# A service manager may start the program again after AGAIN, and must not after the others.
JOB_FAILED, BAD_INPUT, FENCED, INCONSISTENT, AGAIN = 1, 2, 3, 4, 5
INTERRUPTED = 130


@dataclass(frozen=True)
class Output:
    """The result of a command.

    data: the result for machines, to be written as JSON.
    text: the result for people.
    code: the exit code.
    """

    data: Any
    text: str
    code: int = 0


def failure(error: BaseException) -> tuple[int, Sequence[str]]:
    """The exit code and the lines for an error. Raises an error that is a fault of this program."""
    match error:
        case Inconsistent():
            return INCONSISTENT, error.lines
        case UserError():
            return BAD_INPUT, error.lines
        case Fenced():
            return FENCED, [str(error)]
        case Damaged():
            return INCONSISTENT, [str(error)]
        case UnknownCommit() | Unavailable():
            return AGAIN, [str(error)]
        case LogError():
            return BAD_INPUT, [str(error)]
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            line = f"{place}{error.strerror or type(error).__name__}"
            return BAD_INPUT if is_lasting(error) else AGAIN, [line]
        case KeyboardInterrupt():
            return INTERRUPTED, ["interrupted"]
    raise error


def visible(text: str) -> str:
    """The text with escapes for characters that change how the rest of it is shown.

    These are control characters, ends of lines and marks that change the direction of writing.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable(text: str) -> str:
    """The visible text, with escapes for letters that the terminal's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    return visible(text).encode(encoding, "backslashreplace").decode(encoding)


def say(text: str) -> None:
    """Prints a text on standard output at once, escaped. Raises OSError with that name."""
    try:
        print("\n".join(printable(line) for line in text.split("\n")), flush=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None
