"""Reads files that are packed as .xz, within a bound of memory."""

from __future__ import annotations

import io
import lzma
from pathlib import Path

_MEMORY = 1 << 27  # bytes of a dictionary; the largest that xz writes by itself has 64 MiB
_CHUNK = 1 << 16  # bytes read at once


class XzFile(io.RawIOBase):
    """The content of a file of one or more streams.

    `lzma.open` takes as much memory as a file asks for, up to 4 GiB.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._begin()

    def _begin(self) -> None:
        self._stream = lzma.LZMADecompressor(memlimit=_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._stream.eof or self._further():
            packed = self._file.read(_CHUNK) if self._stream.needs_input else b""
            if self._stream.needs_input and not packed:
                raise EOFError("the file is cut short")
            data = self._stream.decompress(packed, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _further(self) -> bool:
        """Begins the next stream. Returns False at the end."""
        rest = self._stream.unused_data or self._file.read(_CHUNK)
        while rest and not rest.strip(b"\0"):  # padding between streams
            rest = self._file.read(_CHUNK)
        if not rest:
            return False
        self._file.seek(-len(rest.lstrip(b"\0")), io.SEEK_CUR)
        self._begin()
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Goes to the beginning, or forward from there."""
        assert whence == io.SEEK_SET
        self._file.seek(0)
        self._begin()
        skipped = 0
        while skipped < position and (data := self.read(min(_CHUNK, position - skipped))):
            skipped += len(data)
        return skipped

    def close(self) -> None:
        self._file.close()
        super().close()
