"""`[run]`: where and how a study runs, which is no part of what it declares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from .intake import Input
from .numbers import Declaration


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("write a power of two, such as 64")
    return value


class Run(Declaration):
    """Where this study runs. Not part of the hash; STREAM_DP_LOG and so on override it."""

    log: str
    """The confidential log: `sqlite:FILE` or `kafka://HOST:PORT,.../PREFIX`. By default
    `sqlite:NAME.db` with the study's name."""
    public: str
    """The public log, all that analysts need. By default `sqlite:NAME-public.db`."""
    snapshots: str | None = None
    """The confidential folder, or fsspec URL, of the population's snapshots. By default a folder
    that bears the study's name."""
    partitions: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many partitions the reports have; fixed once the study has begun."""
    replication: Annotated[int, Field(ge=1, le=10)] = 3
    """On Kafka: on how many brokers each topic is kept. Fewer than 3 must be said."""
    insecure: bool = False
    """On Kafka: `true` allows a broker without authentication."""
    kafka: dict[str, Any] = Field(default_factory=dict)
    """librdkafka's own settings for the confidential cluster. A secret is `{ file = "PATH" }` or
    `{ env = "NAME" }`."""
    kafka_public: dict[str, Any] | None = None
    """The same for the public log, where it lies on a second cluster; otherwise `kafka` holds."""
    listen: str | None = None
    """HOST:PORT of the confidential listener: `/healthz`, `/readyz` and `/metrics`."""
    listen_public: str | None = None
    """HOST:PORT of the public listener: `/metrics` alone, an allow-list."""
    input: Input = Input()
    """`[run.input]`: how records of another shape than plain reports are read."""
    worker: bool | None = None
    """Whether `run` starts a worker of its own for data sets of groups, and an aggregator for
    parts; by default where the log is a file, and not on Kafka."""
    worker_retries: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often a job goes on by itself, from its transcript, after the worker beside `run` was
    killed; then it has failed, and waits for `stream-dp jobs`."""
    engine: Literal["here", "processes", "spark"] = "here"
    """Where periods are closed: in the releaser's own process (`here`), or in parts, by an
    aggregator with several processes (`processes`) or an application of Apache Spark (`spark`)."""
    parts: Annotated[int, Field(ge=1, le=4096), AfterValidator(_power_of_two)] = 64
    """Into how many parts people fall where periods are closed in parts: a power of two."""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """How many processes an aggregator has, or tasks at once without a Spark cluster; by default
    as many as there are cores."""
    signing: dict[Literal["file", "env", "command"], str] | None = None
    """Where the Ed25519 private key (PEM) is that signs what is published: `{ file = "PATH" }`,
    `{ env = "NAME" }`, or `{ command = "WORDS" }`, which prints it. From the first message on, or
    never."""
    signing_before: dict[Literal["file", "env", "command"], str] | None = None
    """The same for the key that signed until now: `signing` takes over from it."""
    encryption: dict[Literal["file", "env", "command"], str] | None = None
    """Where the AES-256 key is, in 64 hexadecimal digits, with which the confidential log and the
    snapshots are encrypted: as for `signing`. Several keys, a line each: the first encrypts, all
    decrypt. From the first record on, or never. On Kafka reports and the clock stay as they are."""
    rejects: Annotated[float, Field(ge=0, le=1)] | None = None
    """The largest share of rejected cells with which `close` goes on when nobody can be asked: it
    stops with exit code 2 where more are rejected, unless `--yes`. By default any share."""
