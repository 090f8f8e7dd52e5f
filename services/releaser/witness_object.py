"""The witness as an object in a bucket: the last sight alone, replaced under a precondition.

The object is `OFFSET SIGHT`: the number of sights before, and the sight as a witness's log has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Batch, Positions, Record, Stored, Unavailable, UnknownCommit

from ..storage.versioned_object import VersionedObject


class WitnessObject:
    """See `witness.WitnessLog`. A second process that advances the witness fences the first
    process.
    """

    def __init__(self, url: str) -> None:
        """Raises UserError without the package for the store."""
        self._object, self._offset = VersionedObject(url, f"run.witness: {url}"), -1

    def create(self, topics: Mapping[str, int]) -> None:
        """The bucket is the operator's; the object comes with the first sight."""

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """The last sight, if its offset is a new one. Raises Inconsistent, Unavailable."""
        content = self._object.read()
        if content is None:
            if self._offset >= 0:
                raise Inconsistent("witness: its object was removed; restore it")
            return Batch((), dict(positions), True)
        number, _, value = content.partition(b" ")
        if not number.isdigit() or len(number) > 12:
            raise Inconsistent("witness: its object is damaged; restore it")
        self._offset = int(number)
        found = Stored(0, self._offset, 0, None, value, ())
        records = [found] if self._offset >= positions[0] else []
        return Batch(records, {0: max(self._offset + 1, positions[0])}, True)

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[WitnessObject]:
        """Any reader of the last sight may advance the witness."""
        yield self

    def commit(self, records: Iterable[Record]) -> None:
        """Replaces the sight. Raises Fenced, UnknownCommit."""
        (record,) = records
        try:
            self._object.replace(b"%d %b" % (self._offset + 1, record.value or b""))
        except Unavailable as error:
            raise UnknownCommit(str(error)) from None
        self._offset += 1

    def close(self) -> None:
        """Nothing is kept open."""
