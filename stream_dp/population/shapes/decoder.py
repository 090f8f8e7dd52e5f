"""Decodes records of another shape: their rows and reports become columns of cells."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import msgspec
import numpy as np

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, memory_bytes
from stream_dp.log.records import Records, binary_array
from stream_dp.study import Study
from stream_dp.study.run_settings import Input

from ..accounting import Reason, RejectedRecord
from ..cells import Cells
from ..report_decoding import CHANGED_INPUT, LARGEST_REPORT, Decoder, Templates, sized_records
from ..report_judging import LONGEST_ID, plain_text
from ..schema_use import ReadAs
from .record_contents import Content, after_id, event_data, json_value, opened, payload, schema_id
from .row_changes import Report, RowChanges
from .row_mapping import MappedReport, Odd, Said, report_in_envelope
from .schemas import Schemas, SchemaSource


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
