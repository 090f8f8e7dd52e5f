"""The end of a public log, for noticing changes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stream_dp.log.log import Log
from stream_dp.study.topics import RELEASES


@dataclass(frozen=True)
class End:
    """The last record read from a public log.

    identity: the identity of the topic.
    position: the offset after the record.
    last: the SHA-256 of the record's value.
    """

    identity: str
    position: int
    last: str

    def is_of(self, log: Log) -> bool:
        """Whether the log still ends with the same record. Raises LogError."""
        if log.describe(RELEASES).identity != self.identity:
            return False
        batch = log.read(RELEASES, {0: self.position - 1}, 2, 0)
        return [sha256(record.value) for record in batch.records] == [self.last]


def sha256(value: bytes | None) -> str:
    """The SHA-256 of a record's value, in hexadecimal."""
    return hashlib.sha256(value or b"").hexdigest()
