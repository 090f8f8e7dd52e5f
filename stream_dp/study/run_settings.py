"""`[run]`: the settings of the running service, separate from the study's declaration."""

from __future__ import annotations

import warnings
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from .field_types import Declaration
from .input_shapes import Input

# A class has a method of this name, by its metaclass, which no instance has.
warnings.filterwarnings("ignore", 'Field name "register" in "Run" shadows', UserWarning)


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("write a power of two, such as 64")
    return value


def _names(value: object) -> object:
    """Names in a list, or in a text with commas between them, as a variable has them."""
    return [name for name in value.split(",") if name] if isinstance(value, str) else value


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
    signing: dict[Literal["file", "env", "command"], str] | None = None
    """The Ed25519 private key (PEM) that signs all published messages: `{ file = "PATH" }`,
    `{ env = "NAME" }`, or `{ command = "WORDS" }`, a command that prints the key. From the
    first message on, or never."""
    signing_before: dict[Literal["file", "env", "command"], str] | None = None
    """The previous signing key, in the same form, until `signing` has taken over."""
    encryption: dict[Literal["file", "env", "command"], str] | None = None
    """The AES-256 key, in 64 hexadecimal digits, that encrypts the confidential log and the
    snapshots, in the form of `signing`. Several keys, a line each: the first encrypts, all
    decrypt. From the first record on, or never. On Kafka reports and the clock stay unencrypted."""
    rejects: Annotated[float, Field(ge=0, le=1)] | None = None
    """The largest share of rejected cells about which `close` says nothing. With a larger share
    `close --check`, and `close` on a terminal, show the operator a warning. Without a terminal
    `close` counts nothing. By default any share."""
