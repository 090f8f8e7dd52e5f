"""A draft at a terminal, or with the answers from another input, a line each.

Questions without an answer come one after the other, and before the last one, the price, a table of
all answers. At each question, any other answer can be changed: `NUMBER = ANSWER` changes a line of
the table, and `<` goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from stream_dp.errors import UserError

from ..process.command_output import printable
from .answers_form import Field
from .draft import AGAIN, PRICE, Draft
from .draft_picture import Fan

_WIDE = 70  # letters of an answer that are shown
_CHANGE = re.compile(r"\s*([^=]*[^=\s])\s*=\s*(.*\S)\s*")
_BEGIN = "An empty line accepts the answer in brackets; < goes back; ? shows all answers."
_HEADER = "From the header, unless you answer differently, such as with columns = A,B:"
_ALL = "All answers, with the proposals where nothing was asked:"
_HELP = "change any line by its number, such as 2 = ANSWER; < goes back; ? shows the lines again"
_FIRST_ASKED = "periods"  # of the fields after those about the header


class Dialogue:
    """Asks for what a draft lacks.

    draw: the draft that follows from answers. Raises UserError.
    lines: of the operator; an empty line takes the proposal.
    show: prints a text to the operator.
    patient: whether a wrong answer is asked again; if not, it ends the dialogue.
    """

    def __init__(
        self,
        draw: Callable[[Mapping[str, str]], Draft],
        lines: Iterable[str],
        show: Callable[[str], None],
        *,
        patient: bool,
    ) -> None:
        self._draw, self._show, self._patient = draw, show, patient
        self._lines: Iterator[str] = iter(lines)
        self._answers: dict[str, str] = {}
        self._asked: list[str] = []  # the keys of answers in order
        self._is_unseen = False  # whether a new price waits for an empty line

    def held(self) -> Draft:
        """The complete draft. Raises UserError if the answers end, or one is wrong."""
        draft = self._draw({})
        self._show(_BEGIN)
        self._show(_HEADER)
        told: set[str] = set()
        while draft.study is None or self._is_unseen:
            field = draft.pending or _field(draft, PRICE)
            found = [key for key in _header_keys(draft, field) if key not in told]
            self._rows(draft, found)
            told |= {*found}
            for line in draft.faults:
                self._refuse(line, "")
            for line in () if field.key in told else draft.notes.get(field.key, ()):
                self._show(printable(f"  {line}"))
            if field.key == PRICE and PRICE not in told:
                self._show(_ALL)
                self._overview(draft)
            told.add(field.key)
            if field.key == PRICE:
                self._priced(draft)
            draft = self._answered(draft, field)
        return draft

    def _answered(self, draft: Draft, field: Field) -> Draft:
        """The draft after the next line."""
        self._show(
            f"{field.question}{f' [{field.answer or field.proposal}]' * bool(field.answer)}: "
        )
        line = next(self._lines, None)
        if line is None:
            raise UserError(
                f"init: the input ends before an answer to {field.key!r}; nothing was written"
            )
        text = line.strip()
        if text == "?":
            self._overview(draft)
            return draft
        if text == "<":
            if self._asked:
                del self._answers[self._asked.pop()]
            return self._draw(self._answers)
        key, answer = _changed(draft, text) or (field.key, text or field.answer)
        if not answer:
            return self._refused(draft, field, "an answer is needed, because none is proposed")
        before, self._answers = self._answers, {**self._answers, key: answer}
        after = self._draw(self._answers)
        if fault := _field(after, key, field).fault:
            self._answers = before
            return self._refused(draft, _field(draft, key, field), fault)
        self._asked = [*(k for k in self._asked if k != key), key]
        if key != field.key and self._patient:
            self._overview(after)
        if key in {PRICE, AGAIN}:
            # The picture of a new price comes before the study is written.
            new = answer != _field(draft, PRICE).answer
            self._is_unseen = self._patient and key == PRICE and new
        return after

    def _refused(self, draft: Draft, field: Field, fault: str) -> Draft:
        self._refuse(fault, f"init: {field.key}: ")
        return draft

    def _refuse(self, fault: str, where: str) -> None:
        """Says what is wrong. Raises UserError if nobody can answer again."""
        if not self._patient:
            raise UserError(f"{where}{fault}; nothing was written")
        self._show(f"  {fault}")

    def _rows(self, draft: Draft, keys: Collection[str]) -> None:
        """Shows the answers with these keys, a row each."""
        for number, field in enumerate(draft.fields, 1):
            if field.key in keys:
                answer = (field.answer or "?")[:_WIDE]
                self._show(printable(f"{number:>3}  {field.key:<12}  {answer}"))

    def _overview(self, draft: Draft) -> None:
        """Shows all answers, a row per column, and how to change them."""
        names = [column.column for column in draft.columns]
        cells: dict[str, list[str]] = {name: [] for name in names}
        for number, field in enumerate(draft.fields, 1):
            column, _, part = field.key.rpartition(": ")
            if column in cells:
                cells[column].append(f"{number} {part}: {field.answer or '?'}")
        keys = [field.key for field in draft.fields if field.key.rpartition(": ")[0] not in cells]
        self._rows(draft, keys)
        wide = min(_WIDE // 2, max(map(len, names), default=0))
        for shown in draft.columns:
            row = "; ".join(cells[shown.column])
            self._show(printable(f"     {shown.column:<{wide}}  {row}"))
            if facts := "; ".join(filter(None, (shown.title, shown.codes))):
                self._show(printable(f"     {'':<{wide}}  {facts}"))
        self._show(f"     {_HELP}")

    def _priced(self, draft: Draft) -> None:
        for line in () if draft.fan is None else fan_lines(draft.fan):
            self._show(line)


def fan_lines(fan: Fan) -> list[str]:
    """The fan as a table."""
    rows = [
        f"  eps {b.eps:>5}   {b.guess:>3} of 100 instead of 50   {b.points}" for b in fan.budgets
    ]
    return [
        f"  {fan.title}, in 95 of 100 cases:",
        "  price       best guess about a person   percentage points",
        *rows,
    ]


def promise_lines(draft: Draft) -> list[str]:
    """What a complete draft promises."""
    study, fan = draft.study, draft.fan
    if study is None or fan is None:
        return []
    chosen = fan.budgets[1]
    return [
        f"precision: {fan.title} is within {chosen.points} percentage points in 95 of 100 cases",
        f"price: rho {float(study.rho):g} at delta {float(study.delta):g}. {fan.words}",
    ]


def _header_keys(draft: Draft, pending: Field) -> list[str]:
    """The keys of the fields about the header of the table, before a pending field."""
    keys = [field.key for field in draft.fields]
    return keys[: min(keys.index(_FIRST_ASKED), keys.index(pending.key))]


def _field(draft: Draft, key: str, otherwise: Field | None = None) -> Field:
    found = next((field for field in draft.fields if field.key == key), otherwise)
    assert found is not None
    return found


def _changed(draft: Draft, text: str) -> tuple[str, str] | None:
    """The field and the answer of a change; None for a text without a change."""
    match = _CHANGE.fullmatch(text)
    if match is None:
        return None
    keys = [field.key for field in draft.fields]
    named = dict(zip(map(str, range(1, len(keys) + 1)), keys, strict=True))
    key = named.get(match[1], match[1])
    return (key, match[2]) if key in keys else None
