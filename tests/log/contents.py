"""Records of tests of logs, and what a topic contains."""

import time

from stream_dp.log.log import Log, Positions, Record, Stored

PATIENCE = 120.0  # seconds after which something that should have come never will


def drain(log: Log, topic: str, positions: Positions | None = None, limit: int = 1000):
    """The records from `positions` (or the first ones) to the end, and the positions there."""
    positions = dict(log.describe(topic).first if positions is None else positions)
    records: list[Stored] = []
    until = time.monotonic() + PATIENCE
    while True:
        batch = log.read(topic, positions, limit, 0)
        assert len(batch.records) <= limit
        assert batch.next.keys() == positions.keys()
        assert all(batch.next[p] >= position for p, position in positions.items())
        records += batch.records
        positions = batch.next
        if batch.at_end:
            return records, positions
        assert time.monotonic() < until, "the end of the topic never came"


def values(log: Log, topic: str, positions: Positions | None = None) -> list[bytes | None]:
    return [record.value for record in drain(log, topic, positions)[0]]


def by_partition(records: list[Stored]) -> dict[int, list[bytes | None]]:
    contents: dict[int, list[bytes | None]] = {}
    for record in records:
        contents.setdefault(record.partition, []).append(record.value)
    return contents


def sent(topic: str, *contents: bytes, **fields) -> list[Record]:
    return [Record(topic, value, **fields) for value in contents]
