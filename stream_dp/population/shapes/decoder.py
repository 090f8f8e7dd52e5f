"""Decodes records of another shape: their rows, or changes of rows, become columns of cells.

A record holds rows, rows marked as deleted, Debezium's changes, or is a tombstone. A change of a
row has to say which person and period the row had. What a database did not write is filled in by
Debezium: with null, with a zero, or with the column's default. So a value that may be filled in
counts only where the record's key has the column too.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, memory_bytes
from stream_dp.log.records import Records, binary_array
from stream_dp.study import Study
from stream_dp.study.run_settings import Input

from ..cells import Cells, Reason, RejectedRecord
from ..report_decoding import CHANGED_INPUT, LARGEST_REPORT, Decoder, Templates, sized_records
from ..report_judging import LONGEST_ID, plain_text
from .column_types import plain_value
from .record_contents import (
    Content,
    ContentSchema,
    ReadAs,
    Schemas,
    SchemaSource,
    after_id,
    event_data,
    json_value,
    opened,
    payload,
    schema_id,
)
from .row_mapping import (
    MappedReport,
    Odd,
    Place,
    Row,
    RowReader,
    RowTypes,
    Said,
    column_reader,
    report_in_envelope,
)

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


class ShapeReader:
    """Reads the reports in records of a declared shape."""

    def __init__(self, study: Study, declared: Input, schemas: Schemas | None = None) -> None:
        self.schemas = schemas
        self.names = tuple(study.attributes)
        self._format = declared.format
        self._changes = None if declared.packed == "report" else RowChanges(study, declared)

    def reports(self, record: Stored, *, sized: bool = False) -> list[Report]:
        """Returns the reports of a record, or the reason for which the record says nothing.

        sized: whether the record is known to have a value, headers and no more bytes than it may.
        """
        if not sized and (
            record.headers is None
            or memory_bytes(record.key, record.value, record.headers) > LARGEST_REPORT
        ):
            return ["unreadable"]
        try:
            content = Content(None) if record.value is None else self._unpacked(record)
        except ValueError:
            return ["unreadable"]
        if self._changes is None:
            return [report_in_envelope(content.value, self.names) or "unreadable"]
        return self._changes.reports(content, partial(self._key, record))

    def looked_up(self, record: Stored) -> list[Report]:
        """Returns the reports of a record alone. Raises Unavailable."""
        with nullcontext() if self.schemas is None else self.schemas.batch():
            return self.reports(record)

    def _unpacked(self, record: Stored) -> Content:
        """Returns the content of a record, from JSON or from Avro. Raises ValueError."""
        match self._format:
            case "connect":
                return payload(record.value)
            case "cloudevents":
                return Content(event_data(record))
            case "json-registry":
                schema_id(record.value)
                return Content(json_value(after_id(record.value or b"")))
            case "avro":
                assert self.schemas is not None
                return self.schemas.read(record.value, record)
        return Content(json_value(record.value))

    def _key(self, record: Stored) -> Content | None:
        """Returns the columns in a record's key. None for a key without columns."""
        data = record.key or b""
        try:
            if data[:1] != b"\0":
                content = Content(json_value(data))
            elif self.schemas is None:
                content = Content(json_value(after_id(data)))
            else:
                content = self.schemas.read(data, record)
        except ValueError:
            return None
        value = content.value
        if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
            content = opened(value)
        return content if isinstance(content.value, dict) else None


class ShapedDecoder(Decoder):
    """Decodes records of a declared shape.

    declared: the shape.
    source: gives a schema by its id; needed for Avro.
    """

    def __init__(
        self, study: Study, key: bytes, declared: Input, source: SchemaSource | None = None
    ) -> None:
        super().__init__(study, key)
        self._mapping = declared.hash
        self._schemas = None if source is None else Schemas(source)
        self._shape = ShapeReader(study, declared, self._schemas)

    def decode(self, records: Sequence[Stored], closed: int) -> tuple[Cells, list[RejectedRecord]]:
        """Decodes a batch; see the plain decoder.

        Raises Unavailable where a schema cannot be had now: nothing of the batch is decoded then.
        """
        columns = Records.of(records)
        sized = sized_records(columns).tolist()
        reports: list[Report] = []
        record_rows: list[int] = []
        with nullcontext() if self._schemas is None else self._schemas.batch():
            for row, record in enumerate(records):
                found = self._shape.reports(record, sized=sized[row])
                reports += found
                record_rows += [row] * len(found)
        return self._judged(columns, reports, np.array(record_rows, np.int64), closed)

    def _judged(
        self,
        records: Records,
        reports: Sequence[Report],
        record_rows: np.ndarray[tuple[int], np.dtype[np.int64]],
        closed: int,
    ) -> tuple[Cells, list[RejectedRecord]]:
        """The cells of reports, and the rejected parts.

        record_rows: by report, the row of its record.
        """
        numbers: dict[tuple[Said, ...], int] = {}  # templates by what they say
        number_of = partial(_number, numbers)
        template = np.fromiter(map(number_of, reports), np.int64, len(reports))
        persons = self.ids([_id_text(report) for report in reports])
        sound = np.fromiter((0 < len(p) <= LONGEST_ID for p in persons), bool, len(persons))
        templates = self._templates(list(numbers))
        accepted = sound & (template >= 0)
        accepted[accepted] = templates.accepted(closed)[template[accepted]]
        rows = np.flatnonzero(accepted)
        cells = [
            self.cells_of_templates(
                templates,
                template[rows],
                binary_array([persons[row].encode() for row in rows.tolist()]),
                records,
                record_rows[rows],
            )
        ]
        by_record: dict[int, Tally[Reason]] = {}
        for row in np.flatnonzero(~accepted).tolist():
            report, record_row = reports[row], int(record_rows[row])
            reasons: Tally[Reason] = Tally({report if isinstance(report, str) else "unreadable": 1})
            if isinstance(report, MappedReport) and report.readable:
                values = report.values(self._shape.names)
                judged = self._judge.report(report.person, report.said[0], values, closed)
                partition, offset = records.partitions[record_row], records.offsets[record_row]
                cells.append(self.cells_of_report(judged, partition, offset))
                reasons = judged.reasons
                if report.said[0] is Odd.ZONELESS and "period" in reasons:
                    reasons = Tally({"zone": reasons["period"]})
            if reasons:
                by_record.setdefault(record_row, Tally()).update(reasons)
        rejected = [RejectedRecord(p, dict(reasons)) for p, reasons in by_record.items()]
        return Cells.joined(cells), rejected

    def _templates(self, said: list[tuple[Said, ...]]) -> Templates:
        """The period and the codes of reports."""
        judge, count = self._judge, len(said)
        period = np.fromiter(
            (0 if plain_text(s[0]) is None else judge.period(s[0]) for s in said), np.int64, count
        )
        code = np.empty((len(judge.names), count), judge.code_type)
        for column in range(len(judge.names)):
            code[column] = np.fromiter(
                (judge.code(column, s[column + 1]) for s in said), judge.code_type, count
            )
        return Templates(period, code)

    def close_period(self) -> ReadAs | None:
        used = {} if self._schemas is None else self._schemas.close_period()
        return ReadAs(self._mapping, used)

    @property
    def unknown(self) -> frozenset[int]:
        return frozenset() if self._schemas is None else self._schemas.unknown

    def repeat(self, read_as: ReadAs | None) -> None:
        if read_as is None or read_as.mapping != self._mapping:
            raise Inconsistent(CHANGED_INPUT)
        if self._schemas is not None:
            self._schemas.repeat(read_as.schemas)

    def go_on(self, periods: Sequence[ReadAs | None]) -> None:
        if self._schemas is not None:
            schemas_by_period = [p.schemas for p in periods if p is not None]
            self._schemas.go_on(
                {n: use.sha256 for schemas in schemas_by_period for n, use in schemas.items()}
            )


def _number(numbers: dict[tuple[Said, ...], int], report: Report) -> int:
    """The number of a report's template: its period and values, without the person.

    numbers: the numbers by template; a template that appears first gets the next number.

    Returns -1 for a report that no template describes: an unreadable one, one with undeclared
    columns, or one without a person.
    """
    if isinstance(report, str) or report.undeclared or report.person is msgspec.UNSET:
        return -1
    return numbers.setdefault(report.said, len(numbers))


def _id_text(report: Report) -> str:
    """The id of a report in text, empty without an id."""
    person = None if isinstance(report, str) else report.person
    return person if isinstance(person, str) else plain_text(person) or ""
