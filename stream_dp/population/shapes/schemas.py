"""The schemas of Avro reports, requested once. A closed period keeps its schemas for good.

A record is read by the schema that its id names. Where the source does not know the id, the record
is unreadable; where the source does not answer, an error is raised and nothing is rejected. The
journal entry of a closed period holds the schemas that it was read with, and from which positions
on: whoever reads it again uses the same, whatever the source says by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Stored

from ..report_decoding import SchemaUse
from . import envelopes
from .avro import AvroSchema

MOST_SCHEMAS = 1000  # that the reports of one period are read with

# Gives the text of a schema by its id, after the texts of those that it refers to; None where there
# is none. Raises Unavailable.
SchemaSource = Callable[[int], tuple[str, ...] | None]


class Schemas:
    """The schemas of reports."""

    def __init__(self, source: SchemaSource) -> None:
        self._source = source
        # By id: None for a text that cannot be used.
        self._known: dict[int, AvroSchema | None] = {}
        self._decided: dict[int, str] = {}  # SHA-256 by id, as closed periods have them
        self._repeated: Mapping[int, SchemaUse] | None = None
        self._used: set[int] = set()
        self._missed: set[int] = set()
        self._since: dict[int, dict[int, int]] = {}
        self._ends: dict[int, int] = {}  # by partition, the position after what was read

    def look_up(self, records: Iterable[Stored]) -> None:
        """Requests each schema of the records once. Raises Unavailable, Inconsistent."""
        ends, ids = dict(self._ends), set[int]()
        for record in records:
            ends[record.partition] = record.offset + 1
            try:
                ids.add(envelopes.schema_id(record.value))
            except ValueError:
                continue
        for number in sorted(ids - self._known.keys()):
            if self._repeated is None or number in self._repeated:
                self._ask(number)
        self._ends = ends

    def _ask(self, number: int) -> None:
        texts = self._source(number)
        if texts is None:
            if self._repeated is not None:
                raise Inconsistent(_gone(number))
            self._missed.add(number)
            return
        try:
            schema = AvroSchema(*texts)
        except ValueError:
            schema = None
        decided = self._decided.get(number)
        if decided is not None and (schema is None or schema.sha256 != decided):
            raise Inconsistent(_gone(number))
        self._known[number] = schema
        if number in self._missed:
            self._since[number] = dict(self._ends)

    def read(self, record: Stored) -> Any:
        """The value of a record. Raises ValueError where it cannot be read."""
        number = envelopes.schema_id(record.value)
        schema = self._known.get(number)
        if self._repeated is not None:
            use = self._repeated.get(number)
            if use is None or not use.known_at(record.partition, record.offset):
                raise ValueError("not known then")
        if schema is None:
            raise ValueError("no schema of that id")
        value = schema.read(envelopes.after_id(record.value or b""))
        self._used.add(number)
        return value

    @property
    def unknown(self) -> frozenset[int]:
        """The ids that were asked for since the last close, and were not known then."""
        return frozenset(self._missed)

    def close_period(self) -> dict[int, SchemaUse]:
        """The schemas that something was read with since the last close."""
        check_number(len(self._used))
        uses = {}
        for number in sorted(self._used):
            schema = self._known[number]
            assert schema is not None
            uses[number] = SchemaUse(schema.sha256, self._since.get(number, {}))
        self._begin()
        return uses

    def repeat(self, uses: Mapping[int, SchemaUse]) -> None:
        """Restricts the schemas to the schemas of a closed period. Raises Inconsistent."""
        self._begin()
        self._repeated = uses
        for number, use in uses.items():
            schema = self._known.get(number)
            if schema is not None and schema.sha256 != use.sha256:
                raise Inconsistent(_gone(number))
            self._decided[number] = use.sha256

    def go_on(self, decided: Mapping[int, str]) -> None:
        """Use whatever the source has. decided: SHA-256 by id, as closed periods used them."""
        self._begin()
        self._repeated = None
        self._decided = dict(decided)

    def _begin(self) -> None:
        """Begin a period."""
        self._used, self._missed, self._since = set(), set(), {}


def check_number(schemas: int) -> None:
    """Raises UserError where the reports of a period were read with too many schemas."""
    if schemas > MOST_SCHEMAS:
        raise UserError(
            f"reports: those of one period have more than {MOST_SCHEMAS} schemas; let their"
            " writers register fewer"
        )


def _gone(number: int) -> str:
    return (
        f"schema {number}: not the one that closed periods were read with; bring back the registry"
        " or the folder of schemas that had it: an id never changes its schema"
    )
