"""Judges reports: the codes of cells, and the reasons for cells without a code.

Every decoder uses this module, so a cell has the same outcome whatever shape its record has.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from stream_dp.study import Attribute, Study
from stream_dp.study.declared_sections import Ids

from .cells import CLEARED, Reason, cell_type
from .id_index import normal_ids

NOT_SAID, REFUSED = -2, -3  # codes: the report lacks the attribute; its value is not declared
LONGEST_ID = 256  # characters


class JudgedReport(NamedTuple):
    """The outcome of a report.

    person: the person's id, by the study's rule.
    period: its number, 0 for a period outside of the study.
    codes: the index of the attribute and the code of each accepted cell.
    reasons: the number of rejected cells, by reason.
    """

    person: str
    period: int
    codes: list[tuple[int, int]]
    reasons: Tally[Reason]


class Judge:
    """Judges the reports of a study.

    names, attributes: of the study, in its order.
    find: by attribute, the function from a value to its code, or to its second argument.
    code_type: the type of the codes.
    """

    def __init__(self, study: Study) -> None:
        self._rule = study.id_rule
        self.names = tuple(study.attributes)
        self.attributes = tuple(study.attributes.values())
        self.find = [_finder(attribute) for attribute in self.attributes]
        self.code_type = cell_type(max((len(a.symbols) for a in self.attributes), default=1))
        self._indices = {name: index for index, name in enumerate(self.names)}
        labels = study.periods.numbers
        self._periods: dict[object, int] = {
            int(label): number
            for label, number in labels.items()
            if re.fullmatch("-?[0-9]+", label)
        }
        self._periods.update(labels)

    @property
    def ascii_ids(self) -> tuple[bool, bool] | None:
        """Whether ids are right as they stand, and whether the case of ASCII ids is folded.

        Normal forms leave ASCII as it is. None without a declared rule.
        """
        rule = self._rule
        return None if rule == Ids() else (bool(rule.as_written), rule.case == "fold")

    @property
    def nobodies(self) -> Sequence[str]:
        """The declared ids of no person."""
        return sorted(self._rule.nobodies - {""})

    def ids(self, persons: Sequence[str]) -> Sequence[str]:
        """Normalises ids by the study's rule, which merges several spellings of an id.

        An id of no person becomes empty.
        """
        return self._rule.normals(persons)

    def id_column(self, ids: pa.Array) -> pa.Array:
        """Normalises a column of ids like `ids`. See `normal_ids`."""
        return normal_ids(ids, self._rule)

    def period(self, value: Hashable) -> int:
        """Returns the number of a period, 0 for a period outside of the study."""
        return self._periods.get(value, 0)

    @property
    def period_numbers(self) -> Mapping[object, int]:
        """The numbers of periods, by the texts and whole numbers that reports name them with."""
        return self._periods

    def code(self, index: int, value: object) -> int:
        """Returns the code of a value of the attribute with this index, or REFUSED."""
        plain = value is None or value is msgspec.UNSET or plain_text(value) is not None
        return self.find[index](value, REFUSED) if plain else REFUSED

    def fault(self, index: int, value: object) -> Reason:
        """Returns the reason for a value without a code."""
        if not isinstance(value, str | int) or plain_text(value) is None:
            return "value"
        fault = self.attributes[index].read(value)
        assert isinstance(fault, str)  # the value has no code
        return fault

    def report(
        self,
        person: object,
        period: object,
        values: Mapping[str, object],
        closed: int,
    ) -> JudgedReport:
        """Judges a report with a readable person, period and values.

        values: by name, of any type; undeclared attributes may be among them.
        closed: the last closed period; cells for it or an earlier period are late.
        """
        codes: list[tuple[int, int]] = []
        reasons: Tally[Reason] = Tally()
        if not values and not (_is_written(person) and _is_written(period)):
            return JudgedReport("", 0, codes, Tally({"unreadable": 1}))
        (name,) = self.ids([plain_text(person) or ""])
        number = self.period(period) if plain_text(period) is not None else 0
        refusal = whole_refusal(0 < len(name) <= LONGEST_ID, number, closed, len(values))
        if refusal is not None:
            return JudgedReport(name, number, codes, Tally(refusal))
        for attribute, value in values.items():
            index = self._indices.get(attribute)
            if index is None:
                reasons["attribute"] += 1
                continue
            code = self.code(index, value)
            if code == REFUSED:
                reasons[self.fault(index, value)] += 1
            else:
                codes.append((index, code))
        return JudgedReport(name, number, codes, reasons)


def whole_refusal(sound: bool, period: int, closed: int, cells: int) -> dict[Reason, int] | None:
    """Counts the rejected cells of a report without any usable cell.

    sound: whether the id is neither empty nor too long.
    period: the period's number, 0 for a period outside of the study.
    closed: the last closed period.
    cells: the number of its cells; a report without a cell is unreadable.

    Returns None for another report.
    """
    if not sound:
        return {"person": max(cells, 1)}
    if cells == 0:
        return {"unreadable": 1}
    if period == 0:
        return {"period": cells}
    if period <= closed:
        return {"late": cells}
    return None


def plain_text(value: object) -> str | None:
    """Converts an id, period or value to text.

    Returns None unless it is text or an integer of 64 bits.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return str(value)
    return None


def whole_number(value: object, most: int = 2**53) -> object:
    """Returns a float without a fraction as a whole number, and any remaining value unchanged.

    most: the largest number all of whose digits a float holds.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= most:
        return int(value)
    return value


def _is_written(value: object) -> bool:
    """Tells whether an id or a period is text or a whole number, of any size."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _finder(attribute: Attribute) -> Callable[[object, int], int]:
    """Makes the function from a reported value to its code, or to its second argument."""
    listed: dict[object, int] = {None: CLEARED, msgspec.UNSET: NOT_SAID}
    listed.update(attribute.codes.items())
    listed.update(dict.fromkeys(attribute.no_answers, CLEARED))
    scale = attribute.number
    if scale is None:
        return listed.get

    def find(value: object, refused: int) -> int:
        code = listed.get(value)
        if code is None:
            reading = scale.read(value) if isinstance(value, str | int) else "value"
            code = refused if isinstance(reading, str) else reading
        return code

    return find
