"""Settings for a Kafka cluster: librdkafka's names, secrets from the environment or files.

No value from a secret ever appears in a message.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError

FILE_VARIABLE = "STREAM_DP_KAFKA_SETTINGS"
# Settings that every client here has a value for: another one would have no effect.
RESERVED = {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "transactional.id",
    # readers
    "isolation.level",
    "enable.auto.commit",
    "enable.partition.eof",
    "auto.offset.reset",
    "fetch.wait.max.ms",
    "fetch.queue.backoff.ms",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "fetch.max.bytes",
    "queued.min.messages",
    "queued.max.messages.kbytes",
    "receive.message.max.bytes",
    # writers
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "partitioner",
    "message.max.bytes",
    "linger.ms",
    "queue.buffering.max.ms",
    "queue.buffering.max.messages",
    "delivery.timeout.ms",
    "message.timeout.ms",
    # of groups that share their partitions out and commit what they have read, as none here does
    "auto.commit.interval.ms",
    "enable.auto.offset.store",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
}
_OFF = {"0", "false", "f", "none"}


def connection_settings(
    servers: str, table: Mapping[str, object], *, insecure: bool, base: Path
) -> dict[str, str]:
    """Builds the settings of a connection.

    table: librdkafka's settings; a value is a literal, {env = ...} or {file = ...}.
    base: the folder that files are relative to.

    Raises UserError for a missing secret, for a setting without effect, and for a broker without
    authentication unless `insecure`.
    """
    settings = {"bootstrap.servers": servers}
    problems = []
    for name, value in _flat(table):
        if name in RESERVED:
            problems.append(
                f"run.kafka.'{name}': stream-dp sets this itself, and your value would have no"
                " effect; remove it"
            )
            continue
        try:
            settings[name] = _placed(name, _value(value, base), base)
        except UserError as error:
            problems += [f"run.kafka.'{name}': {line}" for line in error.lines]
    if problems:
        raise UserError(problems)
    if not insecure and not _authenticated(settings):
        raise UserError(
            "kafka: this would talk to a broker without authentication; set security.protocol and"
            " sasl.* or a client certificate under [run.kafka] (without a study file: in the file"
            f" that {FILE_VARIABLE} names), or say insecure = true in [run]"
            " (STREAM_DP_INSECURE=true) for a broker on this machine"
        )
    return settings


def settings_from_environment(base: Path) -> tuple[dict[str, object], bool]:
    """Reads an analyst's settings, without a study file: a TOML table, and whether `insecure` is
    set.
    """
    insecure = os.environ.get("STREAM_DP_INSECURE", "").lower() in {"1", "true", "yes"}
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        return {}, insecure
    file = base / path
    try:
        return _absolute(tomllib.loads(file.read_text("utf-8")), file.parent), insecure
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{FILE_VARIABLE}: {path} cannot be read") from None
    except (tomllib.TOMLDecodeError, RecursionError):
        raise UserError(f"{FILE_VARIABLE}: {path} is not a TOML file") from None


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields settings by their full names: TOML reads a name with dots and without quotes as
    tables.
    """
    for name, value in table.items():
        if isinstance(value, dict) and not value.keys() <= {"env", "file"}:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _absolute(table: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Returns the table with absolute paths of files."""
    settings = dict[str, object]()
    for name, value in _flat(table):
        if isinstance(value, dict) and isinstance(value.get("file"), str):
            value = {"file": str((folder / value["file"]).absolute())}
        elif isinstance(value, str):
            value = _placed(name, value, folder)
        settings[name] = value
    return settings


def _placed(name: str, value: str, folder: Path) -> str:
    """Makes a file's path in a setting absolute. librdkafka reserves the value 'probe'."""
    if name.endswith(".location") and value != "probe":
        return str((folder / value).absolute())
    return value


def _value(value: object, base: Path) -> str:
    """The text of a setting, also from the environment or a file. Raises UserError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, dict) and value.keys() == {"env"}:
        name = str(value["env"])
        if name not in os.environ:
            raise UserError(f"environment variable {name} is not set")
        return os.environ[name]
    if isinstance(value, dict) and value.keys() == {"file"}:
        path = base / str(value["file"])
        try:
            return path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{path} cannot be read") from None
    raise UserError("write a value, { env = 'NAME' } or { file = 'PATH' }")


def _authenticated(settings: Mapping[str, str]) -> bool:
    """Tells whether this client authenticates and, with TLS, checks the broker's certificate."""
    protocol = settings.get("security.protocol", "plaintext").lower()
    certificate = any(k.startswith(("ssl.certificate", "ssl.keystore")) for k in settings)
    unchecked = settings.get("enable.ssl.certificate.verification", "true").lower() in _OFF
    if "ssl" in protocol and unchecked:
        return False
    return protocol.startswith("sasl") or (protocol == "ssl" and certificate)
