"""The parts of journal entries: states and public records, compressed.

What is published are the records as they were before.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record
from stream_dp.log.message import split_part

PUBLIC = "public/"  # begins the names of parts that are public records
_FAST = 1  # a panel's column of 10^8 rows takes a second


def entry_parts(public: Sequence[Record], states: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The parts of an entry: the states, split to fit a record, and the public records."""
    dumped = [
        part
        for release, data in states.items()
        for part in split_part(state_name(release), zlib.compress(data, _FAST))
    ]
    packed = [zlib.compress(msgspec.msgpack.encode(record), _FAST) for record in public]
    return dumped + [(f"{PUBLIC}{i}", data) for i, data in enumerate(packed)]


def state_name(release: str) -> str:
    """The name of the part with what a period adds to the state of a release."""
    return f"state {release}"


def state_of(part: bytes) -> bytes:
    """A state from its part. Raises Inconsistent."""
    return _decompressed(part, "a mechanism's state")


def record_of(part: bytes) -> Record:
    """A public record from its part. Raises Inconsistent."""
    return msgspec.msgpack.decode(_decompressed(part, "what is to be published"), type=Record)


def _decompressed(part: bytes, what: str) -> bytes:
    try:
        return zlib.decompress(part)
    except zlib.error:
        raise Inconsistent(f"journal: {what} is damaged; restore a backup") from None
