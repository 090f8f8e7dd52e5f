"""The results of commands: exit codes, and texts that are safe on a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

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
