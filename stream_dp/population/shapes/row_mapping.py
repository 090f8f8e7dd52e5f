"""Maps rows to reports: which column is the person, the period and each attribute.

Periods in records are texts, numbers, or numbers that count the time since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from stream_dp.study import Study
from stream_dp.study.date_formats import NUMBERS
from stream_dp.study.number_texts import NumberTexts, WholeNumbers
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import CLOCK_UNITS, Periods
from stream_dp.study.run_settings import Input

from ..report_judging import whole_number
from .column_types import TIMES, ColumnType, column_defaults, column_type, plain_value
from .record_contents import ContentSchema


class Odd(Enum):
    """Stands for a value other than text, whole numbers and null. Every attribute rejects it.

    ZONELESS: stands for a time whose period only a zone would decide.
    """

    VALUE = "odd"
    ZONELESS = "zoneless"


LOCAL = "local-"  # in the name of a type: the time has no zone
_EARLIEST, _LATEST = "Etc/GMT+12", "Etc/GMT-14"  # the clocks that are the furthest apart
_UTC = re.compile(r"[^Tt ]+[Tt ]([0-9:.,]+) ?(?:[Zz]|UTC|GMT|[+-]00(?::?00)?)")
_DAY = {"millis": 86_400_000, "micros": 86_400_000_000, "nanos": 86_400_000_000_000}
_DAY["seconds"] = 86_400


def counts_time(dates: str | None) -> bool:
    """Whether the key `dates` names numbers that count time, not a format of texts."""
    return dates is not None and (dates in NUMBERS or dates in TIMES)


class PeriodValues:
    """The labels of a study's periods by the values in a column.

    dates: a format of texts, or what numbers count: see the key `dates` of `[run.input]`.
    zone: the zone whose days count for times in UTC; by default the zone of the study's schedule.

    Without a zone a time in UTC counts in two cases: at midnight it stands for a date, and in the
    midst of a period it lies in the same period everywhere.
    """

    def __init__(self, periods: Periods, dates: str | None, zone: str | None) -> None:
        self._periods, self._zone = periods, zone
        self._kind = dates if counts_time(dates) else None
        self._format = None if counts_time(dates) else dates
        self._texts = PeriodTexts(periods, self._format, zone)
        self._labels, self._as_they_stand = periods.numbers, dates is None
        self._readers = cache(self._reader)
        self._text = lru_cache(1 << 16)(self._text_label)

    def label(self, value: object, kind: str) -> object:
        """Returns the label of the period that a value names.

        A value that names none is returned as it is, a number that counts time as None. A time
        whose period only a zone would decide is Odd.ZONELESS.

        kind: of the column's type. What the key `dates` declares comes first.
        """
        if value.__class__ is str:
            if self._as_they_stand and value in self._labels:
                return value
            return self._text(value)
        if value.__class__ is not int:
            return value
        kind = self._kind or kind
        if kind not in TIMES and kind not in NUMBERS:
            return value
        if self._periods.every == "step":
            return None
        return self._number_label(str(value), kind)

    def _number_label(self, text: str, kind: str) -> str | Odd | None:
        """The label of a number that counts time."""
        if self._periods.every in CLOCK_UNITS and kind.startswith((LOCAL, "date", "excel")):
            return self._local_label(text, kind)
        if kind.startswith(LOCAL):
            return self._known(self._readers(kind.removeprefix(LOCAL), "UTC").label(text))
        if self._texts.zone is None and kind.startswith("timestamp-"):
            midnight = int(text) % _DAY[kind.removeprefix("timestamp-")] == 0
            return self._everywhere(text, kind, midnight=midnight)
        return self._known(self._readers(kind, self._zone).label(text))

    def _local_label(self, text: str, kind: str) -> str | Odd | None:
        """The label of the hour or minute of local time that a number counts; None for days."""
        if not kind.startswith(LOCAL):
            return None
        if self._texts.zone is None:
            return Odd.ZONELESS
        try:
            written = NUMBERS[kind.removeprefix(LOCAL)][1](int(text)).written
        except OverflowError:
            return None
        return self._known(self._readers(None, self._zone).label(written.isoformat(" ")))

    def _text_label(self, text: str) -> str | Odd | None:
        if self._kind is not None and re.fullmatch("-?[0-9]+", text, re.ASCII):
            return self.label(int(text), "")  # type: ignore[return-value]
        utc = None if self._texts.zone is not None else _UTC.fullmatch(text.strip())
        if utc is None or self._periods.every == "step":
            return self._texts.label(text)
        return self._everywhere(text, self._format, midnight=not utc[1].strip("0:.,"))

    def _everywhere(self, text: str, dates: str | None, *, midnight: bool) -> str | Odd | None:
        """The label of a time in UTC without a declared zone."""
        zones = ("UTC", "UTC") if midnight else (_EARLIEST, _LATEST)
        first, last = (self._readers(dates, zone).label(text) for zone in zones)
        return self._known(first) if first == last else Odd.ZONELESS

    def _known(self, label: str) -> str | None:
        return label if label in self._labels else None

    def _reader(self, dates: str | None, zone: str | None) -> PeriodTexts:
        return PeriodTexts(self._periods, dates, zone)


Row: TypeAlias = Mapping[str, object]


_PLAIN = {str, int, type(None)}
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+")
Said: TypeAlias = str | int | Odd | UnsetType | None  # UNSET for what a record does not have
Place: TypeAlias = tuple[Said, Said]  # a person and a period


class MappedReport(NamedTuple):
    """A report from a record of another shape.

    person: the person's id.
    said: the period, then the value of every attribute of the study.
    undeclared: how many values have names that are no attributes of the study.
    """

    person: Said
    said: tuple[Said, ...]
    undeclared: int = 0

    @property
    def readable(self) -> bool:
        """Whether the record has a person and a period."""
        return self.person is not UNSET and self.said[0] is not UNSET

    def values(self, names: tuple[str, ...]) -> Mapping[str, Said]:
        """Returns the present values by name, with blank names for undeclared names.

        names: of the study's attributes.
        """
        pairs = zip(names, self.said[1:], strict=True)
        values = {name: value for name, value in pairs if value is not UNSET}
        # No attribute has a name that begins with a blank.
        return values | {f" {number}": Odd.VALUE for number in range(self.undeclared)}


class RowTypes(NamedTuple):
    """The types of the columns of the person, the period and every attribute.

    defaults: of all columns of a row; None if nothing says them.
    """

    person: ColumnType
    period: ColumnType
    attributes: tuple[ColumnType, ...]
    defaults: Mapping[str, object] | None

    @property
    def plain(self) -> bool:
        """Whether every column is read as it stands."""
        return not any(kind.kind for kind in (self.person, self.period, *self.attributes))


class RowReader:
    """Reads rows from JSON objects or from Avro's records."""

    def __init__(self, study: Study, declared: Input) -> None:
        columns = declared.attributes or {name: name for name in study.attributes}
        self.person, self.period = column_reader(declared.person), column_reader(declared.period)
        self._columns = [
            None
            if name not in columns
            else (column_reader(columns[name]), declared.mapped_values(name))
            for name in study.attributes
        ]
        texts = NumberTexts(declared.decimal, declared.thousands, declared.round)
        self._numbers = [
            WholeNumbers.of(texts, attribute, declared.mapped_values(name))
            for name, attribute in study.attributes.items()
        ]
        self._as_they_stand = not any(self._numbers)
        self._periods = PeriodValues(study.periods, declared.dates, declared.zone)
        used = (declared.person, declared.period, *columns.values())
        self._paths = [path_of(declared.person), path_of(declared.period)]
        self._paths += [path_of(columns[name]) for name in study.attributes if name in columns]
        mark = declared.deletion_mark(study.attributes)
        self._used = {path_of(column)[0] for column in (*used, *([mark] if mark else ()))}
        self._refuses_extra = declared.extra == "refuse"
        self.untyped = self.types(None, ())
        # Reads the period and every attribute at once, where each is a column as it stands.
        self._whole: Callable[[Row], tuple[object, ...]] | None = None
        names = [declared.period, *(columns[n] for n in study.attributes if n in columns)]
        pointed = any(name.startswith("/") for name in names)
        if len(columns) == len(study.attributes) and not pointed and not declared.values:
            self._whole = itemgetter(*names)

    def types(self, schema: ContentSchema, above: tuple[str, ...]) -> RowTypes:
        """Returns the types of the columns. above: the names above the row in the content."""
        person, period, *read = (column_type(schema, (*above, *path)) for path in self._paths)
        kinds = iter(read)
        attributes = (ColumnType() if c is None else next(kinds) for c in self._columns)
        return RowTypes(person, period, tuple(attributes), column_defaults(schema, above))

    def report(self, row: Row, types: RowTypes) -> MappedReport:
        """Returns the report of a row."""
        extra = len(row.keys() - self._used) if self._refuses_extra else 0
        return MappedReport(self._person(row, types), self._values(row, types), extra)

    def withdrawal(self, place: Place, row: Row | None) -> MappedReport:
        """Returns the report that clears the cells of a row.

        These are the attributes whose columns the row has. A row that is cut down to its key has
        none of them: then all that are mapped are cleared.

        place: the person and the period.
        """
        had = [c is not None and row is not None and c[0](row) is not UNSET for c in self._columns]
        if not any(had):
            had = [column is not None for column in self._columns]
        cleared = (None if clears else UNSET for clears in had)
        return MappedReport(place[0], (place[1], *cleared))

    def place(self, row: Row, types: RowTypes) -> Place:
        """Returns the person and the period of a row."""
        period = _said(self._periods.label(self._number(row), types.period.kind))
        return self._person(row, types), period

    def _person(self, row: Row, types: RowTypes) -> Said:
        person = self.person(row)
        if person.__class__ is str and not types.person.kind:
            return person
        return _said(plain_value(person, types.person))

    def _number(self, row: Row) -> object:
        """The value of the period's column; a float without a fraction becomes a number."""
        return whole_number(self.period(row))

    def _values(self, row: Row, types: RowTypes) -> tuple[Said, ...]:
        """Returns the period and the value of every attribute in a row."""
        if self._whole is not None and (types is self.untyped or types.plain):
            try:
                values = self._whole(row)
            except KeyError:
                values = (UNSET,)
            if _PLAIN.issuperset(map(type, values)):
                label = self._periods.label(values[0], "")
                if label is values[0] and self._as_they_stand:
                    return values  # type: ignore[return-value]
                answers = map(_plain_number, values[1:], self._numbers)
                return (_said(label), *answers)  # type: ignore[arg-type]
        said = [_said(self._periods.label(self._number(row), types.period.kind))]
        columns = zip(self._columns, types.attributes, self._numbers, strict=True)
        for column, kind, numbers in columns:
            value = UNSET if column is None else column[0](row)
            if not kind.kind:  # such a text holds bytes
                value = _plain_number(value, numbers)
            mapped = None if column is None else column[1]
            plain = _rounded(value, plain_value(value, kind), numbers)
            said.append(_mapped(value, plain, mapped) if mapped else _said(plain))
        return tuple(said)


def report_in_envelope(value: object, names: tuple[str, ...]) -> MappedReport | None:
    """Returns a plain report in an envelope, or None for a value other than a report.

    names: of the study's attributes.
    """
    if not isinstance(value, dict):
        return None
    values = value.get("values")
    if not isinstance(values, dict):
        return None
    said = [_said(whole_number(values.get(name, UNSET))) for name in names]
    undeclared = len(values) - len(said) + said.count(UNSET)
    period = _said(whole_number(value.get("period", UNSET)))
    return MappedReport(
        _said(whole_number(value.get("person", UNSET))), (period, *said), undeclared
    )


def _said(value: object) -> Said:
    """Keeps text, whole numbers and null."""
    if value.__class__ in _PLAIN or value is UNSET or value is Odd.ZONELESS:
        return value  # type: ignore[return-value]
    return Odd.VALUE


def _plain_number(value: object, numbers: WholeNumbers | None) -> object:
    """Returns the digits of a text of a whole number, and any other value unchanged."""
    return numbers.plain(value) if numbers is not None and isinstance(value, str) else value


def _rounded(value: object, plain: object, numbers: WholeNumbers | None) -> object:
    """Returns the digits of the nearest whole number of a float or a decimal, if it is rounded.

    value: of a column. plain: the value as `plain_value` returns it.
    """
    if numbers is None or not numbers.texts.rounds or plain.__class__ not in (str, float):
        return plain
    # The marks of a text of the record are read already. A decimal has digits alone.
    is_text = plain is value or plain in numbers.meanings or not _DECIMAL.fullmatch(str(plain))
    if isinstance(plain, str) and is_text:
        return plain
    return numbers.nearest(Decimal(str(plain))) or plain


def _mapped(value: object, plain: object, mapped: dict[str, int | str]) -> Said:
    """Returns the study's value for a column's value, or the value itself if it is not mapped.

    plain: the value as text or a whole number, where it has one.
    mapped: the study's values by the text of the column's values; Booleans are true and false.
    """
    for read in (value, plain):
        if isinstance(read, bool):
            text = "true" if read else "false"
        elif isinstance(read, str | int | float):
            text = str(read)
        else:
            continue
        if text in mapped:
            return mapped[text]
    return _said(plain)


def column_reader(name: str) -> Callable[[Row], object]:
    """Makes what reads a column, by its name or by a JSON Pointer (RFC 6901) through objects.

    It returns UNSET for a row without the column.
    """
    if not name.startswith("/"):
        return lambda row: row.get(name, UNSET)
    path = path_of(name)

    def read(row: object) -> object:
        for key in path:
            if not isinstance(row, dict) or key not in row:
                return UNSET
            row = row[key]
        return row

    return read


def path_of(column: str) -> list[str]:
    """Splits a JSON Pointer into names. Another name is the only one."""
    if not column.startswith("/"):
        return [column]
    names = column[1:].split("/")
    return [name.replace("~1", "/").replace("~0", "~") for name in names]
