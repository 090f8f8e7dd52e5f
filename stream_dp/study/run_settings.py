"""`[run]`: the settings of the running service, separate from the study's declaration.

`[run.input]` turns records into reports.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from stream_dp.errors import UserError

from .attribute import Attribute
from .field_types import Declaration, Name, Symbol
from .period_texts import PeriodTexts
from .periods import Periods

Rows = Literal["flat", "report", "debezium"]
# By format, the possible contents of a record, the default first.
ROWS: dict[str, tuple[Rows, ...]] = {
    "report": ("report",),
    "flat": ("flat",),
    "debezium": ("debezium",),
    "connect": ("flat", "report", "debezium"),
    "avro": ("flat", "report", "debezium"),
    "json-registry": ("flat", "report", "debezium"),
    "cloudevents": ("flat", "report", "debezium"),
}


def _url(value: str) -> str:
    """A web address without a user, a query or a fragment. Raises ValueError."""
    fault = ValueError("write a URL such as https://registry:8081, without user and password")
    try:
        url = urlsplit(value)
        sound = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        raise fault from None
    if not sound or "@" in url.netloc or url.query or url.fragment:
        raise fault
    if not value.isascii() or any(c <= " " for c in value):
        raise fault
    return value.rstrip("/")


Column = Annotated[str, Field(min_length=1, max_length=256)]
# The keys that say how rows of columns become reports.
_OF_ROWS = {"person", "period", "attributes", "values", "extra", "dates", "zone"}
_OF_ROWS |= {"deleted", "tombstone", "before", "decimal", "thousands", "round"}


class Input(Declaration):
    """How the records of the reports topic become reports."""

    format: Literal[
        "report", "flat", "connect", "debezium", "avro", "json-registry", "cloudevents"
    ] = "report"
    """The format of records: a plain report; JSON with a row's columns (`flat`); Kafka Connect's
    JSON with `schema` and `payload`; a Debezium change; Avro or JSON behind a schema registry's
    magic byte and schema id; a CloudEvent, structured or binary."""
    rows: Rows | None = None
    """The content of a record, if the format leaves a choice: columns of a row (`flat`, the
    default), a plain `report`, or a `debezium` change."""
    person: Column = "person"
    """The column of ids. A name that begins with `/` is a JSON Pointer into nested columns."""
    period: Column = "period"
    """The column of periods."""
    attributes: Annotated[dict[Name, Column], Field(min_length=1)] | None = None
    """The column of each attribute, such as `{ poverty = "THINC" }`. By default all attributes of
    the study, in columns with the attributes' names."""
    values: dict[str, Symbol | dict[str, Symbol]] = Field(default_factory=dict)
    """The declared value for each text in a column, such as `{ Yes = 1, No = 0 }`. A table under an
    attribute's name applies to that attribute alone. Booleans have the texts `true` and `false`."""
    dates: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """What the column of periods holds: a format of dates such as `%d.%m.%Y`, as `--dates` of
    `send` takes it; or what numbers count since 1970: `date` for days, `timestamp-seconds`,
    `timestamp-millis`, `timestamp-micros`, `timestamp-nanos` for times in UTC, or
    `local-timestamp-millis` and so on for times without a zone. By default texts are read as `send`
    reads them, and numbers by the types in a record's schema."""
    zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The time zone whose days count for times in UTC, such as `Europe/Berlin`. By default the zone
    of the study's schedule. Without a zone a time in UTC is accepted at midnight, which stands for
    a date, and where every zone has the same period."""
    decimal: Literal[".", ","] | None = None
    """The decimal mark in texts of numbers. Without the key `1200.0` is 1200."""
    thousands: Literal[".", ",", "'", " "] | None = None
    """The mark of thousands in texts of numbers: with `","` the text `1,200` is 1200."""
    round: bool = False
    """Whether an attribute with `number` takes a number with a fraction for the nearest whole
    number; a half is rounded away from zero. By default a number with a fraction is no answer."""
    deleted: Column = "__deleted"
    """In a `flat` row, the column that marks a deleted row. A deleted row clears its answers.
    Deleted are `true`, 1, `t`, `yes`, `y`, `d`, `delete` and `deleted`. Not deleted are `false`, 0,
    `f`, `no`, `n`, `null`, `c`, `r`, `u`, `i`, `create`, `read`, `insert` and `update`. Rows
    without the column are not deleted."""
    tombstone: Literal["refuse", "withdraw", "ignore"] | None = None
    """A record without a value in a topic of `flat` rows: `withdraw` clears the answers of the
    person and period in the record's key, `refuse` (the default) rejects the record with the reason
    `deleted`, `ignore` skips it."""
    before: Literal["required", "fixed"] = "required"
    """The old row of a change: `required` rejects changes that do not say which person and period
    the row had, with the reason `before`. `fixed` declares that no row ever gets another person or
    period, and reads each update without its old row."""
    extra: Literal["ignore", "refuse"] = "ignore"
    """The treatment of further columns: `ignore` drops them, `refuse` rejects their cells with the
    reason `attribute`."""
    registry: Annotated[str, AfterValidator(_url)] | None = None
    """The URL of a schema registry, for `avro`."""
    registry_user: str | None = None
    """The user name for the registry."""
    registry_password: dict[Literal["env", "file"], str] | None = None
    """The user's password: `{ file = "PATH" }` or `{ env = "NAME" }`."""
    schemas: str | None = None
    """A folder of Avro schemas, one `ID.avsc` for each id. The folder is searched before the
    registry."""

    @property
    def packed(self) -> Rows:
        """The content of a record."""
        return self.rows or ROWS[self.format][0]

    @property
    def tombstones(self) -> Literal["refuse", "withdraw", "ignore"]:
        """The treatment of records without a value; behind a Debezium change they say nothing."""
        return self.tombstone or ("ignore" if self.packed == "debezium" else "refuse")

    def deletion_mark(self, attributes: Mapping[str, Attribute]) -> str | None:
        """The column that marks deleted rows. None if the study reads answers from this column.

        attributes: the study's, by name.
        """
        answers = attributes if self.attributes is None else self.attributes.values()
        read = {self.person, self.period, *answers}
        return None if self.packed != "flat" or self.deleted in read else self.deleted

    @property
    def plain(self) -> bool:
        """Whether records are plain reports."""
        return self.format == "report"

    @property
    def hash(self) -> str:
        """SHA-256 of all keys about the reading of records, in hexadecimal.

        Empty for plain reports.
        """
        if self.plain:
            return ""
        connection_keys = {"registry", "registry_user", "registry_password", "schemas"}
        fields = self.model_dump(mode="json", exclude=connection_keys) | {"rows": self.packed}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def faults(self, attributes: Mapping[str, Attribute], periods: Periods) -> list[str]:
        """Contradictions inside the declaration and with the study, in lines.

        attributes: the study's, by name.
        periods: the study's.
        """
        lines = []
        if self.rows is not None and self.rows not in ROWS[self.format]:
            lines.append(f"rows: with format = '{self.format}' this is '{self.packed}'; remove it")
        changed = self.model_fields_set - {"format", "rows"}
        useless = changed & _OF_ROWS
        if self.packed == "report" and useless:
            lines.append(f"{min(useless)}: is for rows of columns; what is packed here is a report")
        sources = {"registry", "schemas"} & {k for k in changed if getattr(self, k) is not None}
        if self.format == "avro" and not sources:
            lines.append("registry: with format = 'avro' declare a registry, or a folder `schemas`")
        if self.format != "avro" and sources:
            lines.append(f"{min(sources)}: goes with format = 'avro'; no other needs schemas")
        if (self.registry_user is None) != (self.registry_password is None):
            lines.append("registry_user: goes with registry_password")
        if self.registry_user is not None and self.registry is None:
            lines.append("registry_user: goes with registry")
        if self.registry_password is not None and len(self.registry_password) != 1:
            lines.append("registry_password: write { env = 'NAME' } or { file = 'PATH' }")
        for name in (self.attributes or {}).keys() - attributes.keys():
            lines.append(f"attributes.{name}: the study has no such attribute")
        lines += self._change_faults(attributes) + self._period_faults(periods)
        if self.decimal is not None and self.decimal == self.thousands:
            lines.append("decimal: is the mark of thousands, too; declare two different marks")
        return lines + self._value_faults(attributes)

    def _change_faults(self, attributes: Mapping[str, Attribute]) -> list[str]:
        changes = self.packed == "debezium"
        keys = {"deleted", "tombstone"} & self.model_fields_set
        lines = [
            f"{key}: is for flat rows; a Debezium change says itself what was deleted"
            for key in sorted(keys if changes else ())
        ]
        if not changes and "deleted" in keys and self.deletion_mark(attributes) is None:
            lines.append(f"deleted: '{self.deleted}' is a column of answers; name another")
        return lines

    def _period_faults(self, periods: Periods) -> list[str]:
        if periods.every == "step":
            keys = {key for key in ("dates", "zone") if getattr(self, key) is not None}
            return [f"{key}: the periods are steps, which have no dates" for key in sorted(keys)]
        dates = self.dates
        if dates is None and self.zone is None:
            return []
        if dates is not None and dates.startswith("local-timestamp-"):
            dates = dates.removeprefix("local-")
        try:
            PeriodTexts(periods, dates, self.zone)
        except UserError as error:
            return list(error.lines)
        return []

    def _value_faults(self, attributes: Mapping[str, Attribute]) -> list[str]:
        """Contradictions of `values`, which maps texts to values, of all attributes or by name."""
        mapped = self.attributes or attributes
        lines = []
        for key, value in self.values.items():
            if not isinstance(value, dict):
                if not any(_reads(attributes[a], value) for a in mapped if a in attributes):
                    lines.append(f"values.{key}: {value!r} is no value of any attribute")
            elif key not in mapped or key not in attributes:
                lines.append(f"values.{key}: no attribute of that name is read")
            else:
                lines += [
                    f"values.{key}.{text}: {symbol!r} is no value of {key}"
                    for text, symbol in value.items()
                    if not _reads(attributes[key], symbol)
                ]
        return lines

    def mapped_values(self, attribute: str) -> dict[str, int | str]:
        """Maps the texts of an attribute's column to declared values."""
        common = {k: v for k, v in self.values.items() if not isinstance(v, dict)}
        of_attribute = self.values.get(attribute)
        return common | (of_attribute if isinstance(of_attribute, dict) else {})


def _reads(attribute: Attribute, value: int | str) -> bool:
    """Whether `value` is a value of the attribute."""
    return attribute.takes(value)


# A class has a method of this name, by its metaclass, which no instance has.
warnings.filterwarnings("ignore", 'Field name "register" in "Run" shadows', UserWarning)


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("write a power of two, such as 64")
    return value


def _names(value: object) -> object:
    """Names in a list, or in a text with commas between them, as a variable has them."""
    return [name for name in value.split(",") if name] if isinstance(value, str) else value


Secret = dict[Literal["file", "env", "command"], str]  # where a key is


class Run(Declaration):
    """The settings of the service. Not part of the hash; overridden by STREAM_DP_LOG and so on."""

    log: str
    """The confidential log: `sqlite:FILE` or `kafka://HOST:PORT,.../PREFIX`. By default
    `sqlite:NAME.db` with the study's name."""
    public: str
    """The public log, all that analysts need. By default `sqlite:NAME-public.db`."""
    snapshots: str | None = None
    """The confidential folder, or fsspec URL, of the population's snapshots. By default a folder
    that bears the study's name."""
    reports: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] | None = None
    """On Kafka: an existing topic that the reports are in. By default `PREFIX.reports`. `close`
    writes its markers into this topic too, except if periods are closed in parts."""
    partitions: Annotated[int, Field(ge=1, le=1000)] = 1
    """The number of partitions of the reports; fixed when the study begins."""
    replication: Annotated[int, Field(ge=1, le=10)] = 3
    """On Kafka: the number of replicas of each topic. Fewer than 3 must be declared."""
    insecure: bool = False
    """On Kafka: `true` allows a broker without authentication."""
    kafka: dict[str, object] = Field(default_factory=dict)
    """librdkafka's own settings for the confidential cluster. A secret is `{ file = "PATH" }` or
    `{ env = "NAME" }`."""
    kafka_public: dict[str, object] | None = None
    """The same settings for a public log on a second cluster. By default those of `kafka`."""
    witness: str | None = None
    """A log on another machine that detects a restored older backup: `sqlite:FILE` or
    `kafka://HOST:PORT,.../PREFIX`. The releaser compares the witness before drawing noise, and
    advances the witness before publishing."""
    kafka_witness: dict[str, object] | None = None
    """The same settings for a witness on another cluster. By default those of `kafka`."""
    register: str | None = None
    """The file of a [register of
    studies](../how-to/choose-a-budget.md#other-studies-of-the-same-people). `run` draws and
    publishes nothing before the register has the beginning of the study. Each further beginning is
    a further charge. `run`, `send` and `close` refuse a study that exceeds the register's
    budget."""
    listen: str | None = None
    """HOST:PORT of the confidential listener: `/healthz`, `/readyz` and `/metrics`."""
    listen_token: str | None = None
    """With `listen`: the file with the token that Prometheus sends for the confidential `/metrics`,
    as `Authorization: Bearer`. 16 characters or more."""
    listen_public: str | None = None
    """HOST:PORT of the public listener: `/metrics` alone, an allow-list."""
    listen_hosts: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    """The names by which clients reach the two listeners. Requests to other names are refused, but
    for the listener's own name, for `localhost` and for addresses."""
    estimates: bool = False
    """`true`: each publication's answers are also written to the public topic `estimates`, one
    record for each answer. A sink of Kafka Connect can fill a table from this topic."""
    estimates_schema: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The id under which a schema registry has the Avro schema of answers. `stream-dp schema --kind
    estimates-avro` prints this schema. The records of `estimates` are then Avro, not JSON."""
    weights: bool = True
    """`true`: after the releases of a period the weights of answers of least error are computed, in
    the background, and published. Without weights all answers are unbiased."""
    input: Input = Input()
    """`[run.input]`: how records of another shape than plain reports are read."""
    worker: bool | None = None
    """Whether `run` starts a worker for data sets, and an aggregator for parts. By default `true`
    if the log is a file, `false` on Kafka."""
    worker_retries: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often a job is resumed from its transcript after the worker of `run` was killed. After a
    further kill the job has failed, and waits for `stream-dp jobs`."""
    engine: Literal["here", "processes", "spark"] = "here"
    """The engine that closes periods: the releaser's process (`here`), or, in parts, an aggregator
    with several processes (`processes`) or an application of Apache Spark (`spark`)."""
    parts: Annotated[int, Field(ge=1, le=4096), AfterValidator(_power_of_two)] = 64
    """The number of parts of the population, if periods are closed in parts: a power of two."""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """The number of processes of an aggregator, or of concurrent tasks without a Spark cluster. By
    default the number of cores."""
    signing: Secret | None = None
    """The Ed25519 private key (PEM) that signs all published messages: `{ file = "PATH" }`,
    `{ env = "NAME" }`, or `{ command = "WORDS" }`, a command that prints the key. From the
    first message on, or never."""
    signing_before: Secret | None = None
    """The previous signing key, in the same form, until `signing` has taken over."""
    encryption: Secret | None = None
    """The AES-256 key, in 64 hexadecimal digits, that encrypts the confidential log and the
    snapshots, in the form of `signing`. Several keys, a line each: the first encrypts, all
    decrypt. From the first record on, or never. On Kafka reports and the clock stay unencrypted."""
    rejects: Annotated[float, Field(ge=0, le=1)] | None = None
    """The largest share of rejected cells about which `close` says nothing. With a larger share
    `close --check`, and `close` on a terminal, show the operator a warning. Without a terminal
    `close` counts nothing. By default any share."""
