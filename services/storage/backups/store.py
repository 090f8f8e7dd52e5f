"""Stores of backups: a folder that only the owner can read, or an fsspec URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import fsspec

from stream_dp.errors import UserError, is_lasting, write_error
from stream_dp.log.log import Unavailable
from stream_dp.log.mark import sync_folder


class BackupStore(Protocol):
    """Files by name, each written whole. Its methods raise UserError, OSError, Unavailable."""

    def prepare(self) -> None:
        """Creates the folder."""

    def check(self) -> None:
        """Raises UserError if other users may read or write the files."""

    def read(self, name: str, limit: int) -> bytes | None:
        """The first bytes of a file, at most `limit`; None for a missing file."""

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None for a missing file."""

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file atomically and durably."""

    def names(self) -> list[str]:
        """The names of all files."""

    def remove(self, name: str) -> None:
        """Removes a file."""


def backup_store(location: str) -> BackupStore:
    """The store in a folder or at a URL. Raises UserError for a URL of an unknown kind."""
    if "://" not in location or location.startswith("file://"):
        return _Folder(Path(location.removeprefix("file://")))
    return _Url(location.rstrip("/"))


class _Folder:
    """A folder of mode 0700, with files of mode 0600."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(self._folder, error) from None
        self.check()

    def check(self) -> None:
        if not self._folder.is_dir():
            raise UserError(f"{self._folder}: no such folder")
        open_to_others = [
            path
            for path in (self._folder, *sorted(self._folder.iterdir()))
            if path.lstat().st_mode & 0o077
        ]
        if open_to_others:
            raise UserError(
                f"{open_to_others[0]}: others may read or write it, and it holds what people"
                f" reported: chmod -R go= {self._folder}"
            )

    def read(self, name: str, limit: int) -> bytes | None:
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        path = self._folder / name
        return path.stat().st_size if path.is_file() else None

    def write(self, name: str, data: bytes) -> None:
        draft = self._folder / f".{name}-{uuid4().hex}"
        try:
            opened = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                with os.fdopen(opened, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._folder / name)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            sync_folder(self._folder)
        except OSError as error:
            raise write_error(self._folder / name, error) from None

    def names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()]

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class _Url:
    """A folder in an object store or on another machine, with the access rights of the store."""

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            self._fs = fsspec.filesystem(url.split("://")[0], use_listings_cache=False)
        except ImportError:
            raise UserError(
                f"{url}: needs a package that is not installed; for s3:// it is"
                " pip install 'stream-dp[s3]'"
            ) from None
        except ValueError:
            raise UserError(f"{url}: is of a kind that cannot be used") from None

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Translates errors of the store. Raises UserError, Unavailable."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            kind = type(error).__name__
            if "Credential" in kind or (isinstance(error, OSError) and is_lasting(error)):
                raise UserError(
                    f"{self._url}: the store refuses: give this process credentials that may read,"
                    f" write and delete there ({kind})"
                ) from None
            raise Unavailable(f"{self._url}: the store does not answer ({kind})") from None

    def prepare(self) -> None:
        with self._errors_named():
            self._fs.makedirs(self._url, exist_ok=True)

    def check(self) -> None:
        pass

    def read(self, name: str, limit: int) -> bytes | None:
        try:
            with self._errors_named():
                data: bytes = self._fs.cat_file(f"{self._url}/{name}", 0, limit)
                return data
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            with self._errors_named():
                return int(self._fs.size(f"{self._url}/{name}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        with self._errors_named():
            self._fs.pipe_file(f"{self._url}/{name}", data)

    def names(self) -> list[str]:
        with self._errors_named():
            paths = self._fs.ls(self._url, detail=False)
        return [str(path).rstrip("/").rsplit("/", 1)[-1] for path in paths]

    def remove(self, name: str) -> None:
        with self._errors_named():
            self._fs.rm_file(f"{self._url}/{name}")
