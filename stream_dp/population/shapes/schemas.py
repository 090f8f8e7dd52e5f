"""The schemas of Avro reports. A closed period keeps its schemas for good.

A record is read by the schema that its id names. Where the source does not know the id, the record
is unreadable; where the source does not answer, an error is raised and nothing is rejected. The
journal entry of a closed period holds the schemas that it was read with, and from which positions
on: whoever reads it again uses the same, whatever the source says by then.

Whether a record is read depends on its own id alone. So the number of schemas has no bound; only
their number in memory has, and a schema that was dropped from memory is requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, Unavailable

from ..schema_use import SchemaUse
from .avro import AvroSchema
from .record_contents import Content, after_id, schema_id

KEPT = 10_000_000  # characters of the schemas in memory, at most
_BESIDE = 1000  # characters that stand for what a schema takes beside its text

# Gives the text of a schema by its id, after the texts of those that it refers to. None where there
# is none now; no texts for a schema that can never be used. Raises Unavailable.
SchemaSource = Callable[[int], tuple[str, ...] | None]


class Schemas:
    """The schemas of reports."""

    def __init__(self, source: SchemaSource) -> None:
        self._source = source
        # By id, the last used at the end: None for a text that cannot be used.
        self._kept: dict[int, AvroSchema | None] = {}
        self._length = 0  # of the kept schemas, in characters
        self._decided: dict[int, str] = {}  # SHA-256 by id, as closed periods have them
        self._repeated: Mapping[int, SchemaUse] | None = None
        self._used: dict[int, str] = {}  # SHA-256 by id, since the last close
        self._missed: set[int] = set()
        self._since: dict[int, dict[int, int]] = {}
        # By partition, the position after the last record with an id in earlier batches, and now.
        self._ends: dict[int, int] = {}
        self._batch_ends: dict[int, int] = {}
        self._absent: set[int] = set()  # ids that the source does not know in this batch

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within the block every record of an id is read with the same schema, or none is."""
        self._absent, self._batch_ends = set(), {}
        yield
        self._ends |= self._batch_ends

    def read(self, data: bytes | None, record: Stored) -> Content:
        """Reads the value or the key of a record.

        data: the value or the key.

        Raises ValueError where it cannot be read, Unavailable, Inconsistent.
        """
        number = schema_id(data)
        self._batch_ends[record.partition] = record.offset + 1
        if self._repeated is not None:
            use = self._repeated.get(number)
            if use is None or not use.known_at(record.partition, record.offset):
                raise ValueError("not known then")
        schema = self._schema(number)
        if schema is None:
            raise ValueError("no schema of that id")
        value = schema.read(after_id(data or b""))
        self._used[number] = schema.sha256
        return Content(value, schema)

    def _schema(self, number: int) -> AvroSchema | None:
        """The schema of an id, from memory or requested; None where no usable one is known."""
        if number in self._absent:
            return None
        if number in self._kept:
            schema = self._kept.pop(number)
        else:
            texts = self._source(number)
            if texts is None:
                self._miss(number)
                return None
            schema = self._checked(number, texts)
            self._length += _length(schema)
        self._kept[number] = schema
        while self._length > KEPT and len(self._kept) > 1:
            self._length -= _length(self._kept.pop(next(iter(self._kept))))
        return schema

    def _miss(self, number: int) -> None:
        """Notes an id that the source does not know."""
        if self._repeated is not None:
            raise Inconsistent(_gone(number))
        if number in self._used:
            raise Unavailable(
                f"schema {number}: the registry or the folder of schemas had it a moment ago, and"
                " reports were read with it; start again"
            )
        self._absent.add(number)
        self._missed.add(number)

    def _checked(self, number: int, texts: tuple[str, ...]) -> AvroSchema | None:
        """The schema of texts; None without a usable schema. Raises Inconsistent after a change."""
        try:
            schema = AvroSchema(*texts)
        except ValueError:
            schema = None
        decided = self._used.get(number) or self._decided.get(number)
        if decided is not None and (schema is None or schema.sha256 != decided):
            raise Inconsistent(_gone(number))
        if number in self._missed:
            self._since.setdefault(number, dict(self._ends))
        return schema

    @property
    def unknown(self) -> frozenset[int]:
        """The ids that were asked for since the last close, and were not known then."""
        return frozenset(self._missed)

    def close_period(self) -> dict[int, SchemaUse]:
        """The schemas that something was read with since the last close."""
        uses = {n: SchemaUse(self._used[n], self._since.get(n, {})) for n in sorted(self._used)}
        self._decided |= self._used
        self._begin()
        return uses

    def repeat(self, uses: Mapping[int, SchemaUse]) -> None:
        """Restricts the schemas to the schemas of a closed period. Raises Inconsistent."""
        self._begin()
        self._repeated = uses
        for number, use in uses.items():
            schema = self._kept.get(number)
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
        self._used, self._missed, self._since = {}, set(), {}


def _length(schema: AvroSchema | None) -> int:
    return _BESIDE + (0 if schema is None else schema.length)


def _gone(number: int) -> str:
    return (
        f"schema {number}: not the one that closed periods were read with; bring back the registry"
        " or the folder of schemas that had it: an id never changes its schema"
    )
