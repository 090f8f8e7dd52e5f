"""What a user can mend: one clear line each, never a value that somebody reported."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """Bad input, a wrong file, a refusal. Each line says what is wrong, where, and what to do."""

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = (lines,) if isinstance(lines, str) else tuple(lines)
        super().__init__("\n".join(self.lines))


class Inconsistent(UserError):
    """The logs contradict each other or the study (fail closed): an operator must decide."""
