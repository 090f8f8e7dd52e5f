"""Stores of confidential files: a folder that only the owner can read, or an fsspec URL.

A file can be encrypted at rest with AES-256-GCM, piece by piece. It begins with a mark, the key's
id and a salt. Its pieces follow, each encrypted under a key of the file's own, derived from the
salt and the name that the file is bound to; the nonce is the piece's number with a mark of the last
one (STREAM: Hoang, Reyhanitabar, Rogaway, Vizar, 2015). So pieces cannot be exchanged, left out or
cut off, nor files exchanged.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar, cast

from stream_dp.errors import UserError, is_lasting, missing_extra
from stream_dp.log.log import LogError, Unavailable
from stream_dp.log.owned_files import make_folder, sync_folder
from stream_dp.log.sealing import KEY_ID, Keyring, derived_key
from stream_dp.privacy.noise import system_entropy

from .atomic_files import protect

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


_READ_AHEAD = 1 << 16  # bytes that are read ahead at a URL
# Object stores, without folders. The operator creates the buckets with their access rights.
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}  # errors of a full disk of this machine
_Saved = TypeVar("_Saved")


class FolderStore:
    """A folder of mode 0700, with files of mode 0600. Methods raise OSError, UserError."""

    def __init__(self, folder: Path) -> None:
        self.root, self._folder = str(folder), folder

    def prepare(self, closed: str | None = None) -> None:
        """Creates the folder, durable on return.

        closed: the pattern of files to close to other users.
        """
        make_folder(self._folder)
        if closed is not None:
            protect([self._folder, *self._folder.glob(closed)])

    def check(self) -> None:
        """Raises UserError for a missing folder, and if other users may read or write the files."""
        if not self._folder.is_dir():
            raise UserError(f"{self._folder}: no such folder")
        for path in (self._folder, *sorted(self._folder.iterdir())):
            if path.lstat().st_mode & 0o077:
                raise UserError(
                    f"{path}: others may read or write it, and it holds what people reported:"
                    f" chmod -R go= {self._folder}"
                )

    @contextmanager
    def drafts(self) -> Iterator[Path]:
        """A folder for drafts of files, on the disk of the store if possible."""
        yield self._folder

    def adopt(self, draft: Path, name: str, *, durable: bool = True) -> None:
        """Gives a complete draft its name. durable: whether the name survives a loss of power."""
        draft.rename(self._folder / name)
        if durable:
            sync_folder(self._folder)

    def touch(self, name: str) -> None:
        """Creates an empty file, without a draft that a crash could leave behind."""
        (self._folder / name).touch(mode=0o600)

    def read(self, name: str, limit: int) -> bytes | None:
        """The first bytes of a file, at most `limit`; None for a missing file."""
        try:
            with self.opened(name) as file:
                return file.read(limit)
        except FileNotFoundError:
            return None

    @contextmanager
    def opened(self, name: str, *, whole: bool = True) -> Iterator[BufferedReader]:
        """Opens a file. whole: whether the caller reads all bytes; then a URL's file is fetched."""
        protect([self._folder / name])
        with (self._folder / name).open("rb") as file:
            yield file

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None for a missing file."""
        path = self._folder / name
        return path.stat().st_size if path.is_file() else None

    def names(self, pattern: str = "*") -> list[str]:
        """The names of all files with a pattern."""
        return [path.name for path in self._folder.glob(pattern)]

    def rename(self, name: str, new_name: str) -> None:
        """Renames a file. Raises FileNotFoundError if a faster process renamed the file."""
        (self._folder / name).rename(self._folder / new_name)
        sync_folder(self._folder)

    def remove(self, name: str) -> None:
        """Removes a file."""
        (self._folder / name).unlink(missing_ok=True)


class UrlStore:
    """A folder in an object store or on another machine, with the access rights of the store.

    subject: names the store in errors.
    files: the file system of fsspec.

    Methods are as in `FolderStore`. They raise UserError if the store refuses, Unavailable if the
    store does not answer, OSError for a missing file or a full disk of this machine.
    """

    def __init__(self, url: str, subject: str) -> None:
        import fsspec

        self.root, self._subject = url, subject
        try:
            # Others write to the same folder: no list of its files is remembered.
            self.files = fsspec.filesystem(url.split("://")[0], use_listings_cache=False)
        except ImportError:
            fault = f"{subject}: needs a package that is not installed; for s3:// the extra s3"
            raise missing_extra(fault, "s3") from None
        except ValueError:
            raise UserError(f"{subject}: is of a kind that cannot be used") from None

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Translates errors of the store, without the contents sent to the store."""
        try:
            yield
        except (FileNotFoundError, LogError, InvalidSeal, UserError):
            raise
        except Exception as error:
            if getattr(error, "errno", None) in _DISK_FULL:
                raise
            kind = type(error).__name__
            if "Credential" in kind or (isinstance(error, OSError) and is_lasting(error)):
                raise UserError(
                    f"{self._subject}: the store refuses: give this process credentials that may"
                    f" read, write and delete there ({kind})"
                ) from None
            raise Unavailable(f"{self._subject}: the store does not answer ({kind})") from None

    def prepare(self, closed: str | None = None) -> None:
        protocols = (
            {self.files.protocol} if isinstance(self.files.protocol, str) else self.files.protocol
        )
        if not _BUCKETS.intersection(protocols):
            with self.errors_named():
                self.files.makedirs(self.root, exist_ok=True)

    def check(self) -> None:
        pass

    @contextmanager
    def drafts(self) -> Iterator[Path]:
        with TemporaryDirectory() as folder:
            yield Path(folder)

    def adopt(self, draft: Path, name: str, *, durable: bool = True) -> None:
        with self.errors_named():
            self.files.put_file(str(draft), f"{self.root}/{name}")

    def touch(self, name: str) -> None:
        with self.errors_named():
            self.files.pipe_file(f"{self.root}/{name}", b"")

    def read(self, name: str, limit: int) -> bytes | None:
        try:
            with self.errors_named():
                content: bytes = self.files.cat_file(f"{self.root}/{name}", 0, limit)
                return content
        except FileNotFoundError:
            return None

    @contextmanager
    def opened(self, name: str, *, whole: bool = True) -> Iterator[BufferedReader]:
        if not whole:
            with (
                self.errors_named(),
                self.files.open(f"{self.root}/{name}", "rb", block_size=_READ_AHEAD) as remote,
            ):
                yield remote
            return
        with TemporaryDirectory() as folder:
            with self.errors_named():
                self.files.get_file(f"{self.root}/{name}", f"{folder}/{name}")
            with Path(folder, name).open("rb") as file:
                yield file

    def size(self, name: str) -> int | None:
        try:
            with self.errors_named():
                return int(self.files.size(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None

    def names(self, pattern: str = "*") -> list[str]:
        with self.errors_named():
            paths = self.files.glob(f"{self.root}/{pattern}")
        return [str(path).rsplit("/", 1)[-1] for path in paths]

    def rename(self, name: str, new_name: str) -> None:
        with self.errors_named():
            self.files.mv(f"{self.root}/{name}", f"{self.root}/{new_name}")

    def remove(self, name: str) -> None:
        with self.errors_named():
            self.files.rm_file(f"{self.root}/{name}")


FileStore: TypeAlias = FolderStore | UrlStore


def file_store(location: str, base: Path = Path(), key: str = "") -> FileStore:
    """The store at a path or a URL. Raises UserError for a URL of an unknown kind.

    base: the folder for relative paths.
    key: the key of the study file that names the location, for errors.
    """
    location = location.removeprefix("file://")
    if "://" in location:
        return UrlStore(location, f"{key}: {location}" if key else location)
    return FolderStore(base / location)


def write_draft(
    folder: Path, stem: str, save: Callable[[BinaryIO], _Saved], *, durable: bool = True
) -> tuple[Path, _Saved]:
    """Writes a draft with mode 0600; returns the path and the result of `save`.

    stem: begins the random name, as two processes may write the same file at once.
    save: writes the content; the file can be read, too.

    Leaves no file after an error.
    """
    opened, name = mkstemp(".tmp", f"{stem}-", folder)
    path = Path(name)
    try:
        with os.fdopen(opened, "r+b") as file:
            saved = save(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            return path, saved
    except BaseException:
        path.unlink()
        raise


def put(store: FileStore, name: str, content: bytes) -> None:
    """Writes a whole file atomically and durably."""
    with store.drafts() as folder:
        store.adopt(write_draft(folder, name, lambda file: file.write(content))[0], name)
