"""An object in a bucket with a precondition: replaced only if unchanged since the last read.

The precondition is S3's: `If-Match` with the version that was read, `If-None-Match: *` if nothing
was there.
"""

from __future__ import annotations

from typing import Any

from stream_dp.errors import UserError
from stream_dp.log.log import Fenced

from .file_stores import UrlStore

_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_MOST_BYTES = 1 << 16


class VersionedObject:
    """An object at `s3://bucket/name`.

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
        place = {"Bucket": self._bucket, "Key": self._key}
        try:
            with self._store.errors_named():
                try:
                    answer = self._store.files.call_s3(
                        "put_object", **place, Body=content, **condition
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
