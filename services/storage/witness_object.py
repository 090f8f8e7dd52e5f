"""The witness as an object in a bucket: the last sight alone, replaced under a precondition.

The object is `OFFSET SIGHT`: the number of sights before, and the sight as a witness's log has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Batch, Fenced, Positions, Record, Stored, Unavailable, UnknownCommit

from .file_stores import UrlStore

_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_MOST_BYTES = 1 << 16


class VersionedObject:
    """An object at `s3://bucket/name`, replaced only if it is unchanged since the last read.

    The precondition is S3's: `If-Match` with the version that was read, `If-None-Match: *` if
    nothing was there.

    subject: names it in errors.

    Methods raise UserError if the store refuses, Unavailable if it does not answer.
    """

    def __init__(self, url: str, subject: str) -> None:
        """Raises UserError without the package for s3."""
        self.subject = subject
        self._store = UrlStore(url, subject)
        self._bucket, _, self._key = url.removeprefix("s3://").partition("/")
        self._version: str | None = None

    def read(self) -> bytes | None:
        """The content, or None without an object. Raises UserError for a missing bucket."""
        from fsspec.asyn import sync

        files = self._store.files

        async def got() -> tuple[str, bytes]:
            answer = await files._call_s3("get_object", Bucket=self._bucket, Key=self._key)
            async with answer["Body"] as body:
                return answer["ETag"], await body.read(_MOST_BYTES)

        try:
            with self._store.errors_named():
                self._version, content = sync(files.loop, got)
        except FileNotFoundError as error:
            if _code(error) == "NoSuchBucket":
                raise UserError(f"{self.subject}: there is no such bucket; create it") from None
            self._version = None
            return None
        return bytes(content)

    def replace(self, content: bytes) -> None:
        """Replaces the content of the last read; durable on return. Raises Fenced after a foreign
        change.
        """
        condition = {"IfNoneMatch": "*"} if self._version is None else {"IfMatch": self._version}
        address = {"Bucket": self._bucket, "Key": self._key}
        try:
            with self._store.errors_named():
                try:
                    answer = self._store.files.call_s3(
                        "put_object", **address, Body=content, **condition
                    )
                except OSError as error:
                    if _code(error) in _CHANGED:
                        raise Fenced("another process has advanced it; stop that one") from None
                    raise
        except FileNotFoundError:  # removed since it was read
            raise Fenced("it was removed; restore it") from None
        self._version = answer["ETag"]


def _code(error: BaseException) -> str:
    """The store's code of an error."""
    response: Any = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


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
        """The object's content as the records of a log: the last sight of the logs, or nothing.

        The object is "OFFSET VALUE". `positions` has the first offset to read of partition 0; the
        batch is empty if the object's offset is below it, and it always ends the log.

        Raises Inconsistent for a removed or damaged object, Unavailable.
        """
        content = self._object.read()
        if content is None:
            if self._offset >= 0:
                raise Inconsistent("witness: its object was removed; restore it")
            return Batch((), dict(positions), True)
        number, _, value = content.partition(b" ")
        if not number.isdigit() or len(number) > 12:
            raise Inconsistent("witness: its object is damaged; restore it")
        self._offset = int(number)
        stored = Stored(0, self._offset, 0, None, value, ())
        records = [stored] if self._offset >= positions[0] else []
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
