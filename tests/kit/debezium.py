"""Tables of PostgreSQL, and the records that Debezium's connector writes of their changes.

`tests/population/debezium.jsonl` has records of the connector itself, to which these are equal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Form = Literal["wrapped", "marked", "tombstones"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    filling: what the connector writes where the database says nothing: null for a column that may
        be null, else the column's default, else a zero of its type.
    schema: the type in Kafka Connect's schema.
    """

    name: str
    filling: Any
    schema: dict[str, Any]


@dataclass
class Table:
    """A table and its changes.

    key: the columns of the primary key.
    full: whether the replica identity is FULL, else DEFAULT.
    schemas: whether records have a schema beside the payload.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    full: bool
    form: Form
    schemas: bool = False
    rows: list[Row] = field(default_factory=list)
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def insert(self, row: Row) -> None:
        self.rows.append(row)
        self._write("c", None, row)

    def update(self, place: int, changed: Row) -> None:
        old = self.rows[place]
        new = self.rows[place] = old | changed
        if self._key(old) != self._key(new):
            self._write("d", self._known(old), None)
            self._write("c", None, new)
        else:
            self._write("u", old if self.full else None, new)

    def delete(self, place: int) -> None:
        self._write("d", self._known(self.rows.pop(place)), None)

    def _known(self, row: Row) -> Row:
        """The old row as far as the replica identity has it."""
        if self.full:
            return row
        return {c.name: row[c.name] if c.name in self.key else c.filling for c in self.columns}

    def _key(self, row: Row) -> Row:
        return {name: row[name] for name in self.key}

    def _write(self, operation: str, before: Row | None, after: Row | None) -> None:
        row = after or before
        assert row is not None
        value = None if self.schemas else b"null"
        if self.form == "wrapped":
            change = {"before": before, "after": after, "source": {}, "op": operation}
            self._record(row, self._json(change, ("before", "after")))
        elif self.form == "marked":
            marked = {**row, "__deleted": "true" if after is None else "false"}
            self._record(row, self._json(marked))
        elif after is not None:
            self._record(row, self._json(after))
        else:
            self._record(row, self._json(None) if self.schemas else value)
        if after is None and self.form == "wrapped":
            self._record(row, None)

    def _record(self, row: Row, value: bytes | None) -> None:
        schema = self._struct(self.key)
        content = self._key(row)
        key = {"schema": schema, "payload": content} if self.schemas else content
        self.records.append((_compact(key), value))

    def _json(self, payload: Row | None, above: tuple[str, ...] = ()) -> bytes:
        if not self.schemas:
            return _compact(payload)
        schema = self._struct(tuple(column.name for column in self.columns))
        if above:
            fields = [{**schema, "field": name} for name in above]
            schema = {"type": "struct", "fields": fields, "optional": False}
        return _compact({"schema": schema, "payload": payload})

    def _struct(self, names: tuple[str, ...]) -> dict[str, Any]:
        fields = [{**c.schema, "field": c.name} for c in self.columns if c.name in names]
        return {"type": "struct", "fields": fields, "optional": True}


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# What `tests/population/debezium.jsonl` has the records of.
_OPTIONAL = {"type": "string", "optional": True}
COLUMNS = (
    Column("id", 0, {"type": "int32", "optional": False}),
    Column("person", "", {"type": "string", "optional": False}),
    Column("month", "2021-01", {"type": "string", "optional": False, "default": "2021-01"}),
    Column("poverty", 0, {"type": "int32", "optional": False}),
    Column("work", None, _OPTIONAL),
    Column(
        "day",
        0,
        {"type": "int32", "optional": False, "name": "io.debezium.time.Date", "version": 1},
    ),
    Column(
        "at",
        0,
        {
            "type": "int64",
            "optional": False,
            "name": "io.debezium.time.MicroTimestamp",
            "version": 1,
        },
    ),
    Column(
        "number",
        "AA==",
        {
            "type": "bytes",
            "optional": False,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "0", "connect.decimal.precision": "6"},
        },
    ),
)
DECLARED = (
    "id int NOT NULL, person text NOT NULL, month text NOT NULL DEFAULT '2021-01',"
    " poverty int NOT NULL, work text, day date NOT NULL, at timestamp NOT NULL,"
    " number numeric(6, 0) NOT NULL"
)
FIRST_ROW = {
    "id": 4,
    "person": "a",
    "month": "2021-02",
    "poverty": 1,
    "work": "yes",
    "day": 18659,
    "at": 1612137600000000,
    "number": "DA==",
}
INSERTED = "4, 'a', '2021-02', 1, 'yes', '2021-02-01', '2021-02-01', 12"
CHANGES: tuple[tuple[str, Row], ...] = (
    ("poverty = 0, work = NULL", {"poverty": 0, "work": None}),
    ("month = '2021-03'", {"month": "2021-03"}),
    ("person = 'b'", {"person": "b"}),
    ("id = 5", {"id": 5}),
)
KEYS = (("id",), ("person", "month"))


def table_name(key: tuple[str, ...], *, full: bool) -> str:
    return f"{'_'.join(key)}_{'full' if full else 'default'}"


def changed_table(key: tuple[str, ...], form: Form, *, full: bool, schemas: bool = False) -> Table:
    """A table after an insert, CHANGES and a deletion, with the records of these."""
    table = Table(COLUMNS, key, full, form, schemas)
    table.insert(FIRST_ROW)
    for _, changed in CHANGES:
        table.update(0, changed)
    table.delete(0)
    return table


def recorded_line(form: str, table: str, key: bytes, value: bytes | None) -> dict[str, object]:
    """A record without what differs from run to run.

    form: of the record; `wrapped_schemas` for records with schemas.
    """
    texts = [None if part is None else _lasting(json.loads(part)) for part in (key, value)]
    return {"form": form, "table": table, "key": texts[0], "value": texts[1]}


def recorded_table(
    form: str, key: tuple[str, ...], *, full: bool
) -> list[tuple[bytes, bytes | None]]:
    """The records of a changed table in a form of `recorded_line`."""
    name: Any = form.partition("_")[0]
    return changed_table(key, name, full=full, schemas="schemas" in form).records


def _lasting(content: Any) -> str:
    change = content["payload"] if isinstance(content, dict) and "payload" in content else content
    if isinstance(change, dict) and "op" in change:
        kept = {name: change[name] for name in ("before", "after", "op")}
        change.clear()
        change.update(kept)
    if isinstance(content, dict) and "schema" in content:
        fields = content.pop("schema")["fields"]
        rows = [field["fields"] for field in fields if field["field"] == "after"]
        return json.dumps([content, rows[0] if rows else fields], sort_keys=True)
    return json.dumps(content)
