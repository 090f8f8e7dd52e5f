"""Logs with records encrypted at rest with AES-256-GCM (NIST SP 800-38D), by the package
`cryptography`, for a cluster that must not read them.

A sealed record has one header and one value: the key's id, a nonce, and the encrypted key, value
and headers of the record. A context, such as the record's offset, is authenticated with it: a
record that was moved does not open.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from stream_dp.errors import UserError, missing_extra
from stream_dp.privacy.noise import system_entropy

from .log import Headers, LogError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .log import (
    MAX_RECORD,
    SEALED,
    Batch,
    Log,
    Positions,
    Record,
    Stored,
    TopicInfo,
    Writer,
    payload_bytes,
)
from .records import RecordColumns, Records

KEY_ID = 8  # bytes
NO_KEY = "is encrypted; declare in run.encryption where its key is"
_NONCE, _NAME = 12, 16
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
_MOST_KEYS = 100
_Content = tuple[bytes | None, bytes | None, Headers | None]
_DECODER = msgspec.msgpack.Decoder(
    tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
)


@dataclass(frozen=True)
class Keyring:
    """AES-256 keys: the first encrypts, all decrypt. keys: of 32 bytes."""

    keys: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Keyring({len(self.keys)} keys)"

    @classmethod
    def of_text(cls, text: str) -> Keyring:
        """Reads the keys of a text with a key a line, in 64 hexadecimal digits.

        Raises UserError, which quotes nothing, also if `cryptography` is not installed.
        """
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ImportError:
            raise missing_extra("cryptography: not installed", "trust") from None
        lines = text.split()
        if not 0 < len(lines) <= _MOST_KEYS or not all(map(_HEX_KEY.fullmatch, lines)):
            raise UserError(
                "not a key in 64 hexadecimal digits, or several, a line each; make one with openssl"
                " rand -hex 32"
            )
        return cls(tuple(bytes.fromhex(line) for line in lines))

    @cached_property
    def ids(self) -> tuple[bytes, ...]:
        """The id of every key: KEY_ID bytes derived from the key."""
        return tuple(derived_key(key, b"stream-dp key id", b"")[:KEY_ID] for key in self.keys)

    def key(self, key_id: bytes) -> bytes | None:
        """Returns the key with this id.

        Returns None if the keyring does not have it.
        """
        return dict(zip(self.ids, self.keys, strict=True)).get(key_id)


def derived_key(key: bytes, purpose: bytes, salt: bytes) -> bytes:
    """Derives a key of 32 bytes for a purpose, by HKDF with SHA-256 (RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=purpose).derive(key)


class RecordSeal:
    """Seals records of a log and opens them.

    keys: the ring of all of its records.
    purpose: of the keys that encrypt, such as the identity of the log.
    """

    def __init__(self, keys: Keyring, purpose: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._id = keys.ids[0]
        self._names = derived_key(keys.keys[0], b"stream-dp keys of records", b"")
        self._ciphers: dict[bytes, AESGCM] = {
            key_id: AESGCM(derived_key(key, b"stream-dp records " + purpose.encode(), b""))
            for key_id, key in zip(keys.ids, keys.keys, strict=True)
        }

    def seal(self, key: bytes | None, value: bytes | None, headers: Headers, context: str) -> bytes:
        """Encrypts a record and returns the value of the sealed record.

        context: authenticated with the content, such as the record's offset.
        """
        nonce = system_entropy(_NONCE)
        content = msgspec.msgpack.encode((key, value, headers))
        return self._id + nonce + self._ciphers[self._id].encrypt(nonce, content, context.encode())

    def key_of(self, key: bytes | None) -> bytes | None:
        """Pseudonymises a record's key. Equal keys stay equal and choose the same partition."""
        return None if key is None else hmac.digest(self._names, key, "sha256")[:_NAME]

    def open(self, sealed: bytes | None, context: str, label: str) -> _Content:
        """Decrypts the key, value and headers of a sealed record.

        context: the context of `seal`.
        label: the record's name in error messages.

        Unreadable headers are None. Raises LogError if the record was not sealed with this context
        and a key of the ring.
        """
        from cryptography.exceptions import InvalidTag

        data = sealed or b""
        cipher = self._ciphers.get(data[:KEY_ID])
        if cipher is None:
            raise LogError(f"{label}: is encrypted with a key that run.encryption does not have")
        nonce = data[KEY_ID : KEY_ID + _NONCE]
        try:
            content: Any = cipher.decrypt(nonce, data[KEY_ID + _NONCE :], context.encode())
            key, value, headers = _DECODER.decode(content)
        except (InvalidTag, ValueError):
            raise LogError(f"{label}: is not what was written there; restore a backup") from None
        return key, value, tuple([(name, content or b"") for name, content in headers])


class SealedLog:
    """The log with the same topics and offsets, whose records are sealed in all of its topics.

    A record is bound to its study, its topic with the topic's id, and its partition. Its offset is
    not known before it is written: the records' order is secured by chains of hashes and by the
    numbers inside of records.

    keys: None for a log that is not encrypted; its records must not be sealed then.
    unsealed: topics that other programs write to, too.
    study: the name of the study.
    """

    def __init__(
        self, log: Log, keys: Keyring | None, unsealed: Iterable[str], study: str = ""
    ) -> None:
        self._log, self._unsealed = log, frozenset(unsealed)
        self._seal = RecordSeal(keys, f"study {study}") if keys else None
        self._checked = set[str]()
        self._infos: dict[str, TopicInfo] = {}  # of topics with sealed records
        self._next_partition = 0  # of records without a key

    def close(self) -> None:
        self._log.close()

    @property
    def file_identity(self) -> str:
        return self._log.file_identity

    def mark(self, name: str) -> bytes:
        return self._log.mark(name)

    def create(self, topics: Mapping[str, int]) -> None:
        self._log.create(topics)

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        return self._log.faults(topics)

    def name(self, topic: str) -> str:
        return self._log.name(topic)

    def hazards(self, topics: Iterable[str]) -> list[str]:
        return self._log.hazards(topics)

    def describe(self, topic: str) -> TopicInfo:
        return self._log.describe(topic)

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        return self._log.describe_all(topics)

    def cut(self, topic: str, time: float) -> Positions:
        return self._log.cut(topic, time)

    def stable(self, topic: str) -> Positions:
        return self._log.stable(topic)

    def now(self, topic: str) -> float:
        return self._log.now(topic)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = self._log.read(topic, positions, limit, timeout)
        if topic in self._unsealed:
            return batch
        if self._seal is None and SEALED not in Records.of(batch.records).headers:
            return batch
        opened = [self._opened(topic, record) for record in batch.records]
        return Batch(opened, batch.next, batch.at_end)

    def _opened(self, topic: str, record: Stored) -> Stored:
        """A record decrypted. Raises LogError unless it is sealed just as the study's keys say."""
        label = f"{self._log.name(topic)}: record {record.offset}"
        sealed = record.headers == SEALED
        if self._seal is None:
            if sealed:
                raise LogError(f"{label}: {NO_KEY}")
            return record
        if not sealed:
            raise LogError(
                f"{label}: is not encrypted; a study that began without encryption goes on without:"
                " remove run.encryption, or begin a new study with new logs"
            )
        context = self._context(topic, record.partition)
        key, value, headers = self._seal.open(record.value, context, label)
        return record._replace(key=key, value=value, headers=headers)

    def _info(self, topic: str) -> TopicInfo:
        if topic not in self._infos:
            self._infos[topic] = self._log.describe(topic)
        return self._infos[topic]

    def _context(self, topic: str, partition: int) -> str:
        """What a sealed record is bound to, beside its study."""
        return "\0".join((self._log.name(topic), self._info(topic).identity, str(partition)))

    def _partition(self, topic: str, key: bytes | None) -> int:
        """The partition of a record that names none; equal sealed keys have the same."""
        if key is None:
            self._next_partition += 1
            number = self._next_partition
        else:
            number = int.from_bytes(key, "big")
        return number % self._info(topic).partitions

    def append(self, records: Iterable[Record]) -> None:
        if isinstance(records, RecordColumns):
            free = records.topic in self._unsealed
            if not free:
                self._check(records.topic)
            if free or self._seal is None:
                self._log.append(records)  # as columns, which the log writes faster
                return
        self._log.append(self._sealed(records))

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[_Owner]:
        with self._log.own(name, topic) as writer:
            yield _Owner(self, writer)

    def _sealed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Records encrypted for their topic and partition; records of unsealed topics unchanged."""
        for record in records:
            if record.topic in self._unsealed:
                yield record
                continue
            self._check(record.topic)
            if self._seal is None:
                yield record
                continue
            if (length := payload_bytes(record)) > MAX_RECORD:
                raise LogError(
                    f"{self._log.name(record.topic)}: {length} bytes is over {MAX_RECORD}"
                )
            key, partition = self._seal.key_of(record.key), record.partition
            if partition is None:
                partition = self._partition(record.topic, key)
            context = self._context(record.topic, partition)
            yield Record(
                topic=record.topic,
                value=self._seal.seal(record.key, record.value, record.headers, context),
                key=key,
                headers=SEALED,
                partition=partition,
                time=record.time,
            )

    def _check(self, topic: str) -> None:
        """Checks, before the first write to a topic, that its first record opens. Raises LogError.

        So no record is written that the study's other programs cannot read.
        """
        if topic not in self._checked:
            self.read(topic, self._log.describe(topic).first, 1, 0)
            self._checked.add(topic)


@dataclass(frozen=True)
class _Owner:
    log: SealedLog
    writer: Writer

    def commit(self, records: Iterable[Record]) -> None:
        self.writer.commit(self.log._sealed(records))

    def mark(self, content: bytes) -> None:
        self.writer.mark(content)
