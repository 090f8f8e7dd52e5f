"""Changes of rows in records: rows, rows marked as deleted, Debezium's changes, tombstones.

A change of a row has to say which person and period the row had. What a database did not write is
filled in by Debezium: with null, with a zero, or with the column's default. So a value that may be
filled in counts only where the record's key has the column too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import UNSET

from stream_dp.study import Study
from stream_dp.study.run_settings import Input

from ..accounting import Reason
from .column_types import plain_value
from .record_contents import Content, ContentSchema, opened
from .row_mapping import MappedReport, Odd, Place, Row, RowReader, RowTypes, column_reader

_DELETED = {"true", "1", "t", "yes", "y", "d", "delete", "deleted"}
_KEPT = {"false", "0", "f", "no", "n", "c", "r", "u", "i", "create", "read", "insert", "update"}
# What Debezium fills in for columns that may not be null.
_FILLINGS = ("", "0", "AA==", "1970-01-01")
_EPOCH = "1970-01-01T00:00:00"

Report: TypeAlias = MappedReport | Reason  # or the reason for which a record says nothing
Key: TypeAlias = Callable[[], Content | None]  # gives the content of a record's key on demand


class RowChanges:
    """Turns the contents of records into reports, or into reasons."""

    def __init__(self, study: Study, declared: Input) -> None:
        self._rows = RowReader(study, declared)
        self._changes, self._tombstone = declared.packed == "debezium", declared.tombstones
        self._before = declared.before
        self._marked = declared.deletion_mark(study.attributes)
        self._mark = None if self._marked is None else column_reader(self._marked)
        self._types: tuple[object, RowTypes] = (None, self._rows.untyped)

    def reports(self, content: Content, key: Key) -> list[Report]:
        """Returns the reports of a content in the order of their effect."""
        value, schema = content
        if self._changes and isinstance(value, dict) and "op" not in value and "payload" in value:
            value, schema = opened(value)
        if value is None:
            return self._without_value(key)
        if not isinstance(value, dict):
            return ["unreadable"]
        types = self._rows.untyped if schema is None else self._types_of(schema)
        return self._change(value, types, key) if self._changes else self._row(value, types, key)

    def _types_of(self, schema: ContentSchema) -> RowTypes:
        """The types of the columns of a row. Records beside each other often share a schema."""
        if self._types[0] is not schema:
            path = ("after",) if self._changes else ()
            self._types = schema, self._rows.types(schema, path)
        return self._types[1]

    def _without_value(self, key: Key) -> list[Report]:
        if self._tombstone == "ignore":
            return []
        key_row = key() if self._tombstone == "withdraw" else None
        place = None if key_row is None else self._place_in(key_row, self._rows.untyped)
        return ["deleted" if place is None else self._rows.withdrawal(place, None)]

    def _row(self, row: Row, types: RowTypes, key: Key) -> list[Report]:
        mark = UNSET if self._mark is None else self._mark(row)
        if mark is UNSET and self._tombstone != "withdraw":
            return [self._rows.report(row, types)]
        text = _mark_text(mark)
        if text in _DELETED:
            return [self._withdrawal(row, types, key)]
        if text is not None and text not in _KEPT:
            return ["deleted"]
        key_row = key()
        # Rows with another key may get another person or period, and a row alone does not say so.
        if self._before == "required" and key_row is not None and not self._has_place(key_row):
            return ["before"]
        return [self._rows.report(row, types)]

    def _change(self, change: Row, types: RowTypes, key: Key) -> list[Report]:
        """The reports of a Debezium change.

        An insert, a read or an update is the row after it; an update that moves a row to another
        person or period first clears the old one's cells. A deletion clears the cells of the row.
        """
        operation, before, after = (change.get(key) for key in ("op", "before", "after"))
        if operation == "d":
            return [self._withdrawal(before, types, key)]
        if operation not in ("c", "r", "u") or not isinstance(after, dict):
            return ["unreadable"]
        report = self._rows.report(after, types)
        if operation != "u":
            return [report]
        old = self._place(before, types, key) if isinstance(before, dict) else None
        if old is None or not isinstance(before, dict):
            return ["before"] if self._before == "required" else [report]
        if _texts(old) == _texts((report.person, report.said[0])):
            return [report]
        return [self._rows.withdrawal(old, before), report]

    def _withdrawal(self, row: object, types: RowTypes, key: Key) -> Report:
        """Clears the cells of a deleted row."""
        columns = row if isinstance(row, dict) else None
        place = None if columns is None else self._place(columns, types, key)
        if place is None and (key_row := key()) is not None:
            place = self._place_in(key_row, types)
        return "before" if place is None else self._rows.withdrawal(place, columns)

    def _place(self, row: Row, types: RowTypes, key: Key) -> Place | None:
        """The person and the period of an old row. None if one of them may be filled in."""
        rows = self._rows
        for read, kind in ((rows.person, types.person), (rows.period, types.period)):
            value = read(row)
            if value is UNSET or value is None or value == "":
                return None
            if value == kind.default or _is_filling(plain_value(value, kind)):
                key_row = key()
                if key_row is None or read(_columns(key_row)) is not UNSET:
                    continue
                if self._is_cut_down(row, types, _columns(key_row)):
                    return None
        return rows.place(row, types)

    def _is_cut_down(self, row: Row, types: RowTypes, key: Row) -> bool:
        """Whether every value outside of the key may be filled in.

        The mark of deletion, and what Debezium adds to rows under names with `__`, say nothing.
        """
        defaults = types.defaults
        return defaults is None or all(
            name in key
            or name == self._marked
            or name.startswith("__")
            or value == defaults.get(name)
            or _is_filling(value)
            for name, value in row.items()
        )

    def _place_in(self, key: Content, types: RowTypes) -> Place | None:
        """The person and the period in a key. None if the key does not have both.

        types: of the columns in a row, for a key without a schema.
        """
        if not self._has_place(key):
            return None
        key_types = types if key.schema is None else self._rows.types(key.schema, ())
        return self._rows.place(_columns(key), key_types)

    def _has_place(self, key: Content) -> bool:
        values = [read(_columns(key)) for read in (self._rows.person, self._rows.period)]
        return not any(value is UNSET or value is None or value == "" for value in values)


def _columns(key: Content) -> Row:
    assert isinstance(key.value, dict)
    return key.value


def _mark_text(mark: object) -> str | None:
    """The text of a mark of deletion; None for null, and for a row without a mark."""
    if mark is UNSET or mark is None:
        return None
    return str(mark).strip().lower() if isinstance(mark, str | int) else ""


def _is_filling(value: object) -> bool:
    """Whether a value may stand for one that a database did not write."""
    if isinstance(value, str):
        return value in _FILLINGS or value.startswith(_EPOCH)
    return not value or isinstance(value, dict) or (isinstance(value, bytes) and not any(value))


def _texts(place: Place) -> list[str] | None:
    """A person and a period to compare; None if one of them is neither text nor a number."""
    return None if any(isinstance(value, Odd) for value in place) else [*map(str, place)]
