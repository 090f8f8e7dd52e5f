"""Decodes records of another shape: as plain reports, which are then decoded like any other."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.base import Stored, memory_bytes
from stream_dp.population.cells import Cells
from stream_dp.population.rejected import Reason, RejectedRecord
from stream_dp.population.reports import CHANGED_INPUT, LARGEST_REPORT, Decoder, ReadAs
from stream_dp.study import Study
from stream_dp.study.intake import Input

from . import envelopes
from .rows import RowReader, plain_report
from .schemas import Schemas, SchemaSource


class ShapeReader:
    """Reads records of a declared shape as the bytes of plain reports."""

    def __init__(self, study: Study, declared: Input, schemas: Schemas | None = None) -> None:
        self.schemas = schemas
        self._format, self._packed = declared.format, declared.packed
        self._rows = RowReader(study, declared)

    def reports(self, record: Stored) -> list[bytes | None]:
        """The plain reports of a record; None for one that cannot be read.

        A tombstone behind a Debezium change is no report and no fault.
        """
        if (
            record.headers is None
            or memory_bytes(record.key, record.value, record.headers) > LARGEST_REPORT
        ):
            return [None]
        if record.value is None:
            return [] if self._packed == "debezium" else [None]
        try:
            value = self._unpacked(record)
        except ValueError:
            return [None]
        return [None if r is None else msgspec.json.encode(r) for r in self._packed_reports(value)]

    def looked_up(self, record: Stored) -> list[bytes | None]:
        """As `reports`, after asking for the schema. Raises Unavailable."""
        if self.schemas is not None:
            self.schemas.look_up([record])
        return self.reports(record)

    def _unpacked(self, record: Stored) -> Any:
        """What a record packs, as JSON or what Avro has for it. Raises ValueError."""
        match self._format:
            case "connect":
                return envelopes.payload(record.value)
            case "cloudevents":
                return envelopes.event_data(record)
            case "json-registry":
                envelopes.schema_id(record.value)
                return envelopes.json_value(envelopes.after_id(record.value or b""))
            case "avro":
                assert self.schemas is not None
                return self.schemas.read(record)
        return envelopes.json_value(record.value)

    def _packed_reports(self, value: Any) -> list[dict[str, Any] | None]:
        if self._packed == "debezium":
            return envelopes.change_reports(value, self._rows)
        return [self._rows.report(value) if self._packed == "flat" else plain_report(value)]


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
        """As the plain decoder's. Raises Unavailable where a schema cannot be had now: nothing of
        the batch is decoded then."""
        if self._schemas is not None:
            self._schemas.look_up(records)
        reports: list[Stored] = []
        places: list[int] = []
        for place, record in enumerate(records):
            for value in self._shape.reports(record):
                reports.append(
                    Stored(
                        partition=record.partition,
                        offset=record.offset,
                        time=record.time,
                        key=None,
                        value=value,
                        headers=(),
                    )
                )
                places.append(place)
        cells, rejected = super().decode(reports, closed)
        by_record: dict[int, Tally[Reason]] = {}
        for one in rejected:
            by_record.setdefault(places[one.place], Tally()).update(one.cells)
        return cells, [RejectedRecord(p, dict(reasons)) for p, reasons in by_record.items()]

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
            known = [p.schemas for p in periods if p is not None]
            self._schemas.go_on({n: use.sha256 for some in known for n, use in some.items()})
