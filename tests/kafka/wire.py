"""Batches of records as Kafka's protocol has them, for what no client's producer would send.

A batch (format 2) and a produce request (version 7) are put together from bytes, so that names of
headers may be any bytes, times any number, and a batch may expand to any size.
"""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

CODECS = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}
_BLOCK = 1 << 22  # of an lz4 frame
_POLYNOMIAL = 0x82F63B78
_NOT_YET = {3, 5, 6}  # errors while a new topic has no leader that knows it


@dataclass(frozen=True)
class Raw:
    """A record; None is null. time: milliseconds."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    time: int = 0


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _varint(number: int) -> bytes:
    rest, data = number << 1 ^ number >> 63, bytearray()
    rest &= (1 << 64) - 1
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*data, rest])


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _record(record: Raw, place: int, base: int) -> bytes:
    headers = b"".join(_sized(name) + _sized(value) for name, value in record.headers)
    body = b"\0" + _varint(record.time - base) + _varint(place)
    body += _sized(record.key) + _sized(record.value)
    return _sized(body + _varint(len(record.headers)) + headers)


def _lz4_frame(body: bytes) -> bytes:
    """Brokers take only frames of independent blocks, which pyarrow does not write."""
    frame = bytearray.fromhex("04224d18607073")
    for start in range(0, len(body), _BLOCK):
        block = pa.compress(body[start : start + _BLOCK], codec="lz4_raw", asbytes=True)
        frame += struct.pack("<I", len(block)) + block
    return bytes(frame) + bytes(4)


def batch(records: Sequence[Raw], codec: str = "none") -> bytes:
    base, most = records[0].time, max(record.time for record in records)
    body = b"".join(_record(record, place, base) for place, record in enumerate(records))
    if codec == "gzip":
        body = gzip.compress(body)
    elif codec == "lz4":
        body = _lz4_frame(body)
    elif codec != "none":
        body = pa.compress(body, codec=codec, asbytes=True)
    last = len(records) - 1
    head = struct.pack(">hiqqqhii", CODECS[codec], last, base, most, -1, -1, -1, last + 1)
    rest = struct.pack(">ibI", -1, 2, crc32c(head + body)) + head + body
    return struct.pack(">qi", 0, len(rest)) + rest


def _text(words: str) -> bytes:
    return struct.pack(">h", len(words)) + words.encode()


def produce(address: str, topic: str, partition: int, data: bytes) -> int:
    """Sends a batch; the offset of its first record. Raises ValueError where it is refused."""
    for _ in range(100):
        error, offset = _sent(address, topic, partition, data)
        if error not in _NOT_YET:
            break
        time.sleep(0.05)
    if error:
        raise ValueError(f"the broker refuses the batch: error {error}")
    return offset


def _sent(address: str, topic: str, partition: int, data: bytes) -> tuple[int, int]:
    """The error code of a response (0 for none), and the offset."""
    host, _, port = address.partition(":")
    body = struct.pack(">hhi", 0, 7, 1) + _text("wire") + struct.pack(">hhii", -1, -1, 30_000, 1)
    body += _text(topic) + struct.pack(">iii", 1, partition, len(data)) + data
    with socket.create_connection((host, int(port)), 60) as line:
        line.sendall(struct.pack(">i", len(body)) + body)
        with line.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            response = answer.read(size)
    place = 4 + 4 + 2 + len(topic) + 4
    _, error, offset = struct.unpack_from(">ihq", response, place)
    return error, offset
