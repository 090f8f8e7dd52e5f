"""A form of answers: fields with proposals, each of which can be answered at any time.

A form is filled anew with all answers so far, so that a changed answer changes what follows from it
and no other answer. An answer to a field that is gone has no effect.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stream_dp.errors import UserError

_T = TypeVar("_T")
NONE = "-"  # the answer 'none of it'
ONE = "="  # the answer 'one for all rows'


@dataclass(frozen=True)
class Field:
    """A question and its answer.

    key: names the field, once in a form.
    proposal: the answer without an answer; empty if there is none.
    answer: the given answer, else the proposal.
    choices: the only answers; empty if there are others.
    fault: why the answer is refused; empty if it is sound.
    is_open: whether an answer is still needed.
    """

    key: str
    question: str
    proposal: str
    answer: str
    choices: tuple[str, ...]
    fault: str
    is_open: bool


class Form:
    """Fields in order. answers: by key, the given ones."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers
        self.fields: list[Field] = []

    def ask(
        self,
        key: str,
        question: str,
        read: Callable[[str], _T],
        otherwise: _T,
        *,
        proposal: str = "",
        choices: Sequence[str] = (),
        confirmed: bool = False,
    ) -> _T:
        """The value of a field.

        read: turns an answer into the value. Raises UserError with the fault.
        otherwise: the value while there is no sound answer.
        confirmed: whether the proposal alone is no answer.
        """
        given = self._answers.get(key, "").strip()
        answer, fault, value = given or proposal, "", otherwise
        if answer:
            try:
                value = read(answer)
            except UserError as error:
                fault = "; ".join(error.lines)
        is_open = bool(fault) or not answer or (confirmed and not given)
        field = Field(key, question, proposal, answer, tuple(choices), fault, is_open)
        self.fields.append(field)
        return value

    def forget(self, key: str, choices: Sequence[str]) -> None:
        """Leaves out an answer that is none of the choices any more."""
        if self._answers.get(key) not in choices:
            self._answers = {k: answer for k, answer in self._answers.items() if k != key}

    def choose(
        self,
        key: str,
        question: str,
        choices: Sequence[str],
        proposal: str,
        *,
        confirmed: bool = False,
    ) -> str:
        """One of some texts."""

        def read(answer: str) -> str:
            if answer not in choices:
                raise UserError(f"write one of {', '.join(choices)}")
            return answer

        return self.ask(
            key,
            question,
            read,
            proposal or choices[0],
            proposal=proposal,
            choices=choices,
            confirmed=confirmed,
        )


def whole_number(answer: str, low: int, high: int) -> int:
    """An answer as a whole number, of which a sign may part the thousands.

    Raises UserError for any other answer, and for a number outside of the range.
    """
    parted = re.fullmatch(r"[0-9]{1,3}([,_ '])[0-9]{3}(?:\1[0-9]{3})*", answer)
    text = answer.replace(parted[1], "") if parted else answer
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
