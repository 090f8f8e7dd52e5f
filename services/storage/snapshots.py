"""Snapshots of the population and of jobs' data, in a confidential folder or at an fsspec URL.

A file is written under a temporary name, synced and renamed; the hash of the content is in the
journal. The last two snapshots of the population are kept, and snapshots of jobs until the job is
done or abandoned. A file with a wrong hash is set aside under another name, and never removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log.sealing import Keyring
from stream_dp.population.population import Population

from ..process.events import Event, Tell, ignore
from .file_stores import (
    InvalidSeal,
    UrlStore,
    file_store,
    open_sealed,
    put,
    write_draft,
    write_sealed,
)

_POPULATION = "period"  # the label of the population's snapshots
_DAMAGED_PREFIX = "damaged-"  # begins the names of files that were set aside


class DamagedSnapshot(Inconsistent):
    """A snapshot's hash differs from the journal's hash."""


class Snapshots:
    """A folder of snapshots of a single or of several journals.

    location: a path, or a URL that fsspec knows.
    base: the folder for relative paths.
    keys: the keys that encrypt the files; None for plain files.

    Raises UserError for a URL of an unknown kind.
    """

    def __init__(self, location: str, base: Path, keys: Keyring | None = None) -> None:
        self._files = file_store(location, base, "run.snapshots")
        self._owner, self._keys = "", keys
        self._tell: Tell = ignore

    def of(self, owner: str, tell: Tell = ignore) -> Snapshots:
        """The same folder for a journal.

        owner: the first part of the names of the journal's snapshots.
        tell: called with an event for every file that is set aside.
        """
        snapshots = copy(self)
        snapshots._owner, snapshots._tell = owner, tell
        return snapshots

    def as_stored(self) -> Snapshots:
        """The same folder, whose files are read and written without being decrypted."""
        snapshots = copy(self)
        snapshots._keys = None
        return snapshots

    def restore(self, name: str, content: bytes) -> None:
        """Writes the stored bytes of a file under a name. Raises OSError, UserError."""
        try:
            put(self._files, name, content)
        except OSError as error:
            raise write_error(f"{self._files.root}/{name}", error) from None

    def prepare(self) -> None:
        """Creates the folder and tries to write a file.

        No bucket of an object store is created. Raises UserError, OSError, Unavailable.
        """
        name = f"{self._owner}-probe"
        try:
            self._files.prepare(f"*{self._owner}-*")
            self._files.touch(name)
            self._files.remove(name)
        except OSError as error:
            subject = f"run.snapshots: {self._files.root}"
            if isinstance(self._files, UrlStore) and isinstance(error, FileNotFoundError):
                raise UserError(
                    f"{subject}: there is no such bucket or folder; create it, so that you say who"
                    " may read there"
                ) from None
            raise write_error(subject, error) from None

    def write(self, population: Population) -> tuple[str, str]:
        """Writes a snapshot of the population; returns the name and SHA-256 as `store` does."""
        return self.store(f"{_POPULATION}-{population.period:05d}", ".npz", population.save)

    def store(
        self,
        label: str,
        suffix: str,
        save: Callable[[BinaryIO], None],
        *,
        durable: bool = True,
    ) -> tuple[str, str]:
        """Writes a file; returns the name and the SHA-256 of the content.

        label: the middle of the name, after the owner.
        suffix: the end of the name, after the first digits of the hash.
        save: writes the content.
        durable: whether the file is synced, so that it survives a loss of power.

        Raises OSError, UserError, and leaves no file then.
        """
        stem, keys = f"{self._owner}-{label}", self._keys

        def save_hashed(file: BinaryIO) -> str:
            if keys is not None:
                return write_sealed(file, keys, stem + suffix, save)
            save(file)
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

        try:
            with self._files.drafts() as folder:
                draft, digest = write_draft(folder, stem, save_hashed, durable=durable)
                name = f"{stem}-{digest[:16]}{suffix}"
                self._files.adopt(draft, name, durable=durable)
        except OSError as error:
            raise write_error(f"{self._files.root}/{stem}{suffix}", error) from None
        return name, digest

    @contextmanager
    def opened(self, name: str, digest: str) -> Iterator[BinaryIO | None]:
        """Opens a snapshot; None for a missing file. Raises DamagedSnapshot for a wrong hash."""
        with self.at(name) as file:
            if file is not None:
                _check_content(file, name, digest)
                file.seek(0)
            yield file

    @contextmanager
    def intact(self, name: str, digest: str) -> Iterator[BinaryIO | None]:
        """Opens a replaceable snapshot; sets a damaged file aside and returns None.

        A damaged file keeps its mode under the name `damaged-NAME`. Raises OSError, UserError.
        """
        with ExitStack() as stack:
            try:
                file = stack.enter_context(self.opened(name, digest))
            except DamagedSnapshot as error:
                self._set_aside(name, error.lines[0].partition(";")[0])
                file = None
            yield file

    def _set_aside(self, name: str, fault: str) -> None:
        """Renames a damaged file to a name that is free, and tells the operator."""
        new_name, number = f"{_DAMAGED_PREFIX}{name}", 1
        while self.holds(new_name):
            number += 1
            new_name = f"{_DAMAGED_PREFIX}{number}-{name}"
        try:
            self._files.rename(name, new_name)
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            raise write_error(f"{self._files.root}/{new_name}", error) from None
        message = f"{fault}; it is kept as {new_name}, and the input is replayed instead"
        self._tell(Event("snapshot-damaged", message))

    def damaged(self) -> list[str]:
        """The names of this journal's damaged files."""
        return sorted(self._files.names(f"{_DAMAGED_PREFIX}*{self._owner}-*"))

    @contextmanager
    def at(self, name: str, *, whole: bool = True) -> Iterator[BufferedReader | None]:
        """Opens a file by name without checking the hash; None for a missing file.

        whole: whether all of it is read; for a part, a URL's file is not fetched as a whole.
        """
        with ExitStack() as stack:
            file: BufferedReader | None
            try:
                file = stack.enter_context(self._files.opened(name, whole=whole))
                if self._keys is not None:
                    stem, _, rest = name.rpartition("-")
                    file = open_sealed(file, self._keys, stem + Path(rest).suffix)
                    stack.enter_context(file)
            except FileNotFoundError:
                file = None
            yield file

    def holds(self, name: str) -> bool:
        """Whether a file has the name."""
        return self._files.size(name) is not None

    def newest_period(self) -> int:
        """The last period of which this journal has a snapshot of the population; 0 without one."""
        stem = f"{self._owner}-{_POPULATION}-"
        numbers = (name.removeprefix(stem).partition("-")[0] for name in self._names(f"{stem}*"))
        return max((int(number) for number in numbers if number.isdigit()), default=0)

    def of_any_journal(self) -> bool:
        """Whether the folder has a snapshot of the population of any journal."""
        return bool(self._names(f"*-{_POPULATION}-*"))

    def _names(self, pattern: str) -> list[str]:
        """The names of all files with a pattern; none without the folder."""
        with suppress(FileNotFoundError):
            return self._files.names(pattern)
        return []

    def keep(
        self,
        names: set[str],
        label: str = _POPULATION,
        upto: int | None = None,
        spare: Collection[str] = (),
    ) -> None:
        """Removes all snapshots of this journal with a label, except the snapshots in `names`.

        label: the beginning of `label` in `store`.
        upto: the largest number after the label to remove; None removes all numbers.
        spare: texts after the label; files with one of these texts are kept.
        """
        stem = f"{self._owner}-{label}-"
        for name in self._files.names(f"{stem}*"):
            number = name.removeprefix(stem).partition("-")[0]
            if name in names or (upto is not None and number.isdigit() and int(number) > upto):
                continue
            if not any(name.startswith(f"{stem}{text}-") for text in spare):
                self._files.remove(name)


def _check_content(file: BufferedReader, name: str, digest: str) -> None:
    """Raises DamagedSnapshot if the content's hash differs from the journal's."""
    try:
        wrong = hashlib.file_digest(file, "sha256").hexdigest() != digest
    except InvalidSeal:
        raise DamagedSnapshot(
            f"snapshot {name}: does not open with the keys of run.encryption; add the one that it"
            " was written with, or remove it, and the input is replayed instead"
        ) from None
    if wrong:
        raise DamagedSnapshot(
            f"snapshot {name}: not the bytes that the journal names; remove it, and"
            " the input is replayed instead"
        )
