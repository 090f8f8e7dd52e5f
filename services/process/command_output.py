"""The results of commands: exit codes, text tables, and texts that are safe on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from stream_dp.errors import Inconsistent, UserError, is_lasting, visible

# A service manager may start the program again after UNAVAILABLE, and must not after the others.
JOB_FAILED, BAD_INPUT, FENCED, INCONSISTENT, UNAVAILABLE = 1, 2, 3, 4, 5
VIOLATION = 6  # an audit found that a release costs more than it declares
INTERRUPTED = 130


class Output(NamedTuple):
    """The result of a command.

    data: the result for machines, to be written as JSON.
    text: the result for people.
    code: the exit code.
    """

    data: object
    text: str
    code: int = 0


def failure(error: BaseException) -> tuple[int, Sequence[str]]:
    """The exit code and the lines for an error. Raises an error that is a fault of this program."""
    from stream_dp.log.log import (  # a help and a sound command do not wait for it
        Damaged,
        Fenced,
        LogError,
        OutOfRange,
        Unavailable,
        UnknownCommit,
    )

    match error:
        case Inconsistent():
            return INCONSISTENT, error.lines
        case UserError():
            return BAD_INPUT, error.lines
        case Fenced():
            return FENCED, [str(error)]
        case Damaged() | OutOfRange():
            return INCONSISTENT, [str(error)]
        case UnknownCommit() | Unavailable():
            return UNAVAILABLE, [str(error)]
        case LogError():
            return BAD_INPUT, [str(error)]
        case OSError():
            file_prefix = f"{error.filename}: " if error.filename else ""
            line = f"{file_prefix}{error.strerror or type(error).__name__}"
            return BAD_INPUT if is_lasting(error) else UNAVAILABLE, [line]
        case MemoryError():
            return UNAVAILABLE, ["there is not enough memory; give this process more of it"]
        case KeyboardInterrupt():
            return INTERRUPTED, ["interrupted"]
    arrow = sys.modules.get("pyarrow")  # not imported here, because few commands need it
    if arrow is not None and isinstance(error, arrow.ArrowException):
        return BAD_INPUT, [f"a table cannot be read or written: {type(error).__name__}"]
    raise error


def printable(text: str) -> str:
    """Escapes a text as `visible` does, and letters outside of the terminal's encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    return visible(text).encode(encoding, "backslashreplace").decode(encoding)


def say(text: str) -> None:
    """Prints an escaped text on standard output and flushes. Raises OSError with this name."""
    try:
        print("\n".join(printable(line) for line in text.split("\n")), flush=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


_AFTER = 2.0  # seconds without a sign of life


@contextmanager
def shown_elapsed(name: str, after: float = _AFTER) -> Iterator[None]:
    """Shows the seconds that a command has taken on standard error, if that is a terminal.

    name: the command. after: the seconds before the first time.
    """
    if not sys.stderr.isatty():
        yield
        return
    start, done = time.monotonic(), threading.Event()

    def show() -> None:
        if done.wait(after):
            return
        with suppress(OSError):
            while not done.wait(0.2):
                seconds = time.monotonic() - start
                print(f"\r{name}: {seconds:.0f} s", end="", file=sys.stderr, flush=True)
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


WARNING = (
    "CONFIDENTIAL: computed from true data, not protected by any noise. "
    "The noise is simulated; nothing here is a release."
)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lays out a table with aligned columns, the first to the left."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(_aligned_row(row, widths) for row in (head, *rows))


def decimal(number: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """Writes a number with this many decimal digits, or a dash for None."""
    return "-" if number is None else f"{number:{'+' if signed else ''}.{digits}f}"


def _aligned_row(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])
