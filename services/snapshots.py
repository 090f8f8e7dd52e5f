"""Snapshots of the population and of jobs' data, in a confidential folder or at an fsspec URL.

A file is written under another name, synced and renamed; its hash is in the journal. Two snapshots
of the population are kept, and those of jobs until these are done or abandoned.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import fsspec

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.population import Population


class Snapshots:
    """A folder of snapshots, which several journals may share.

    place: a path, or a URL that fsspec knows.
    base: the folder that a path is relative to.
    owner: the beginning of the names of one journal's snapshots.

    Raises UserError for a URL of an unknown kind.
    """

    def __init__(self, place: str, base: Path, owner: str = "") -> None:
        self._place, self._base, self._owner = place.removeprefix("file://"), base, owner
        try:
            kind = self._place.split("://")[0] if "://" in self._place else None
            self._fs = fsspec.filesystem(kind) if kind else None
        except (ValueError, ImportError):
            raise UserError(f"run.snapshots: '{place}' is of a kind that cannot be used") from None
        self._root = self._place if self._fs else str(base / self._place)

    def of(self, owner: str) -> Snapshots:
        """The same folder for the journal `owner`."""
        return Snapshots(self._place, self._base, owner)

    def prepare(self) -> None:
        """Creates the folder and tries to write a file. Raises UserError, OSError."""
        name = f"{self._owner}-probe"
        try:
            if self._fs is None:
                root = Path(self._root)
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                (root / name).touch(mode=0o600)
                (root / name).unlink()
            else:
                self._fs.makedirs(self._root, exist_ok=True)
                self._fs.pipe_file(f"{self._root}/{name}", b"")
                self._fs.rm_file(f"{self._root}/{name}")
        except OSError as error:
            raise write_error(f"run.snapshots: {self._root}", error) from None

    def write(self, population: Population) -> tuple[str, str]:
        """Writes a snapshot of the population; returns its name and SHA-256, see `store`."""
        return self.store(f"period-{population.period:05d}", ".npz", population.save)

    def store(self, what: str, suffix: str, save: Callable[[BinaryIO], None]) -> tuple[str, str]:
        """Writes a file, which is durable when this returns; returns its name and SHA-256.

        what: the middle of its name, after the owner's.
        suffix: the end of its name, after a part of the hash.
        save: writes the content.

        Raises OSError, UserError; no file is left then.
        """
        stem = f"{self._owner}-{what}"
        try:
            return self._store(stem, suffix, save)
        except OSError as error:
            raise write_error(f"{self._root}/{stem}{suffix}", error) from None

    def _store(self, stem: str, suffix: str, save: Callable[[BinaryIO], None]) -> tuple[str, str]:
        if self._fs is None:
            root = Path(self._root)
            temporary, digest = _written(save, root / f"{stem}.tmp")
            name = f"{stem}-{digest[:16]}{suffix}"
            temporary.rename(root / name)
            _sync(root)
            return name, digest
        with TemporaryDirectory() as folder:
            temporary, digest = _written(save, Path(folder) / stem)
            name = f"{stem}-{digest[:16]}{suffix}"
            self._fs.put_file(str(temporary), f"{self._root}/{name}")
        return name, digest

    @contextmanager
    def opened(self, name: str, digest: str) -> Iterator[BinaryIO | None]:
        """A snapshot to be read; None where it is gone. Raises Inconsistent for other bytes."""
        with ExitStack() as stack:
            try:
                path = Path(self._root) / name
                if self._fs is not None:
                    path = Path(stack.enter_context(TemporaryDirectory())) / name
                    self._fs.get_file(f"{self._root}/{name}", str(path))
                file = stack.enter_context(path.open("rb"))
            except FileNotFoundError:
                file = None
            if file is not None:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise Inconsistent(
                        f"snapshot {name}: not the bytes that the journal names; remove it, and"
                        " the input is replayed instead"
                    )
                file.seek(0)
            yield file

    def keep(self, names: set[str], what: str = "period") -> None:
        """Removes all snapshots of this journal and kind but those with the names.

        what: the kind, as the beginning of `what` in `store`.
        """
        pattern = f"{self._owner}-{what}-*"
        if self._fs is None:
            for file in Path(self._root).glob(pattern):
                if file.name not in names:
                    file.unlink()
            return
        for path in self._fs.glob(f"{self._root}/{pattern}"):
            if path.rsplit("/", 1)[-1] not in names:
                self._fs.rm_file(path)


def _written(save: Callable[[BinaryIO], None], path: Path) -> tuple[Path, str]:
    """Writes a synced file that only its owner can read; returns its path and SHA-256."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    try:
        with path.open("r+b") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            return path, hashlib.file_digest(file, "sha256").hexdigest()
    except BaseException:
        path.unlink()
        raise


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
