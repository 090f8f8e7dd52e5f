"""Streams of files encrypted at rest with AES-256-GCM, piece by piece.

A file begins with a mark, the key's id and a salt. Its pieces follow, each encrypted under a key
of the file's own, derived from the salt and the name that the file is bound to; the nonce is the
piece's number with a mark of the last one (STREAM: Hoang, Reyhanitabar, Rogaway, Vizar, 2015). So
pieces cannot be exchanged, left out or cut off, nor files exchanged.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from stream_dp.log.sealing import KEY_ID, Keyring, derived_key
from stream_dp.privacy.noise import system_entropy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"stream-dp sealed 1\n"
_SALT_SIZE = 32
_HEADER_SIZE = len(_MAGIC) + KEY_ID + _SALT_SIZE
_CHUNK_SIZE = 1 << 20  # bytes of content; the last piece has fewer
_TAG_SIZE = 16


class InvalidSeal(Exception):
    """A file, or a piece of a file, was not written under this name with one of the keys."""


def write_sealed(file: BinaryIO, keys: Keyring, name: str, save: Callable[[BinaryIO], None]) -> str:
    """Encrypts what `save` writes into the file; returns the SHA-256 of the content.

    name: the name that the file is bound to.
    """
    salt = system_entropy(_SALT_SIZE)
    file.write(_MAGIC + keys.ids[0] + salt)
    sink = _Sink(file, _cipher(keys.keys[0], name, salt))
    save(cast(BinaryIO, sink))
    sink.finish()
    return sink.digest.hexdigest()


def open_sealed(file: BinaryIO, keys: Keyring, name: str) -> io.BufferedReader:
    """Decrypts an open file as a stream; closing the stream closes the file.

    Reading raises InvalidSeal, OSError.
    """
    return io.BufferedReader(_Source(file, keys, name), _CHUNK_SIZE)


def _cipher(key: bytes, name: str, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(derived_key(key, b"stream-dp file " + name.encode(), salt))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


class _Sink(io.RawIOBase):
    """Encrypts written content, piece by piece. digest: SHA-256 of the content."""

    def __init__(self, file: BinaryIO, cipher: AESGCM) -> None:
        super().__init__()
        self._file, self._cipher, self._waiting = file, cipher, bytearray()
        self._number, self._length, self.digest = 0, 0, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        """Encrypts all full pieces but the last, which may turn out to be the end."""
        content = memoryview(data).cast("B")
        self.digest.update(content)
        self._waiting += content
        self._length += len(content)
        # The last piece is never empty but in an empty file: it is kept until more follows.
        while len(self._waiting) > _CHUNK_SIZE:
            self._seal(bytes(self._waiting[:_CHUNK_SIZE]), last=False)
            del self._waiting[:_CHUNK_SIZE]
        return len(content)

    def finish(self) -> None:
        """Writes the last piece."""
        self._seal(bytes(self._waiting), last=True)

    def _seal(self, piece: bytes, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last), piece, None))
        self._number += 1


class _Source(io.RawIOBase):
    """Decrypts a sealed file during reading, with a single piece in memory."""

    def __init__(self, file: BinaryIO, keys: Keyring, name: str) -> None:
        super().__init__()
        self._file = file
        head = self._file.read(_HEADER_SIZE)
        key = keys.key(head[len(_MAGIC) : len(_MAGIC) + KEY_ID])
        self._cipher = None
        if len(head) == _HEADER_SIZE and head.startswith(_MAGIC) and key is not None:
            self._cipher = _cipher(key, name, head[-_SALT_SIZE:])
        sealed = self._file.seek(0, io.SEEK_END) - _HEADER_SIZE
        self._pieces = max(1, -(-sealed // (_CHUNK_SIZE + _TAG_SIZE)))
        self._length = max(0, sealed - self._pieces * _TAG_SIZE)
        self._offset, self._number, self._piece = 0, -1, b""

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._length}[whence]
        self._offset = max(0, begin + offset)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        """Reads from one piece at most. Raises InvalidSeal.

        The first call decrypts a piece even at the end, so that an empty file is authentic too.
        """
        number, start = divmod(self._offset, _CHUNK_SIZE)
        any_decrypted = self._number >= 0
        if self._offset >= self._length and any_decrypted:
            return 0
        piece = self._opened(min(number, self._pieces - 1))[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)

    def _opened(self, number: int) -> bytes:
        """Decrypts a piece. Raises InvalidSeal."""
        from cryptography.exceptions import InvalidTag

        if number != self._number:
            if self._cipher is None:
                raise InvalidSeal
            self._file.seek(_HEADER_SIZE + number * (_CHUNK_SIZE + _TAG_SIZE))
            sealed = self._file.read(_CHUNK_SIZE + _TAG_SIZE)
            try:
                nonce = _nonce(number, number == self._pieces - 1)
                self._piece = self._cipher.decrypt(nonce, sealed, None)
            except InvalidTag:
                raise InvalidSeal from None
            self._number = number
        return self._piece
