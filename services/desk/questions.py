"""Asks questions at a terminal, or takes the answers from another input, a line each."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from stream_dp.errors import UserError

_T = TypeVar("_T")
NONE = "-"  # the answer 'none of it'
ONE = "="  # the answer 'one for all rows'


class Unanswered(UserError):
    """The answers have ended before this question. proposal, choices: as in `Questions`."""

    def __init__(self, question: str, proposal: str, choices: Sequence[str]) -> None:
        super().__init__(f"init: there is no answer to '{question}'; nothing was written")
        self.question, self.proposal, self.choices = question, proposal, choices


class Questions:
    """Asks one question after the other.

    answers: the lines of the answers; an empty line takes the proposal.
    show: prints a text to the operator.
    patient: whether a wrong answer is asked again; if not, it ends the interview.
    """

    def __init__(
        self, answers: Iterable[str], show: Callable[[str], None], *, patient: bool
    ) -> None:
        self._answers: Iterator[str] = iter(answers)
        self.show, self._patient = show, patient

    def ask(
        self,
        question: str,
        read: Callable[[str], _T],
        proposal: str = "",
        choices: Sequence[str] = (),
    ) -> _T:
        """Asks until the answer can be read.

        read: turns the answer into a value. Raises UserError with the fault.
        proposal: the answer of an empty line; none if it is empty.
        choices: the only answers; empty if there are others.

        Raises Unanswered if the answers end, and UserError for a wrong answer of an impatient
        interview.
        """
        while True:
            self.show(f"{question}{f' [{proposal}]' if proposal else ''}: ")
            line = next(self._answers, None)
            if line is None:
                raise Unanswered(question, proposal, choices)
            answer = line.strip() or proposal
            try:
                if not answer:
                    raise UserError("an answer is needed")
                return read(answer)
            except UserError as error:
                if not self._patient:
                    raise UserError([f"{question}: {line}" for line in error.lines]) from None
                self.show("".join(f"  {line}\n" for line in error.lines))

    def choose(self, question: str, choices: Sequence[str], proposal: str = "") -> str:
        """Asks for one of some texts."""

        def read(answer: str) -> str:
            if answer not in choices:
                raise UserError(f"write one of {', '.join(choices)}")
            return answer

        return self.ask(question, read, proposal, choices)

    def whole(self, question: str, low: int, high: int, proposal: str = "") -> int:
        """Asks for a whole number from `low` to `high`."""

        return self.ask(question, lambda answer: whole_number(answer, low, high), proposal)


def whole_number(answer: str, low: int, high: int) -> int:
    """An answer as a whole number. Raises UserError for any other, and outside of the range."""
    text = answer.replace(",", "").replace("_", "")
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise UserError(f"write a whole number from {low:,} to {high:,}")
    return int(text)


def listed(answer: str) -> list[str]:
    """The parts of an answer between commas; a part with a comma stands in quotes.

    Raises UserError for an empty or a repeated part.
    """
    cells = next(csv.reader([answer], skipinitialspace=True), [])
    parts = [part.strip() for part in cells or [""]]
    if not all(parts):
        raise UserError("a name is missing between two commas")
    if len(set(parts)) < len(parts):
        raise UserError("a name stands there twice")
    return parts


def joined(parts: Iterable[str]) -> str:
    """An answer that `listed` takes apart."""
    return ",".join(f'"{part}"' if "," in part else part for part in parts)
