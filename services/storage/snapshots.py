"""Snapshots of the population and of jobs' data, in a confidential folder or at an fsspec URL.

A file is written under a temporary name, synced and renamed; the hash of the content is in the
journal. The last two snapshots of the population are kept, and snapshots of jobs until the job is
done or abandoned. A file with a wrong hash is set aside under another name, and never removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import BinaryIO, TypeVar

import fsspec

from stream_dp.errors import Inconsistent, UserError, is_lasting, write_error
from stream_dp.log.log import LogError, Unavailable
from stream_dp.log.sealing import Keyring
from stream_dp.population import Population

from ..process.events import Event, Tell, ignore
from .modes import protect
from .sealed_files import InvalidSeal, open_sealed, write_sealed

_READ_AHEAD = 1 << 16  # bytes that are read ahead at a URL
# Object stores, without folders. The operator creates the buckets with their access rights.
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}  # errors of a full disk of this machine
_DAMAGED_PREFIX = "damaged-"  # begins the names of files that were set aside
_File = TypeVar("_File", bound=BinaryIO)


class DamagedSnapshot(Inconsistent):
    """A snapshot's hash differs from the journal's hash."""


class Snapshots:
    """A folder of snapshots of a single or of several journals.

    location: a path, or a URL that fsspec knows.
    base: the folder for relative paths.
    owner: the first part of the names of a journal's snapshots.
    keys: the keys that encrypt the files; None for plain files.
    tell: called with an event for every file that is set aside.

    Raises UserError for a URL of an unknown kind.
    """

    def __init__(
        self,
        location: str,
        base: Path,
        owner: str = "",
        keys: Keyring | None = None,
        tell: Tell = ignore,
    ) -> None:
        self._location, self._base, self._owner = location.removeprefix("file://"), base, owner
        self._keys, self._tell = keys, tell
        try:
            kind = self._location.split("://")[0] if "://" in self._location else None
            # Others write to the same folder: no list of its files is remembered.
            self._fs = fsspec.filesystem(kind, use_listings_cache=False) if kind else None
        except ImportError:
            raise UserError(
                f"run.snapshots: '{location}' needs a package that is not installed; for s3:// it"
                " is pip install 'stream-dp[s3]'"
            ) from None
        except ValueError:
            raise UserError(
                f"run.snapshots: '{location}' is of a kind that cannot be used"
            ) from None
        self._root = self._location if self._fs else str(base / self._location)

    def of(self, owner: str, tell: Tell = ignore) -> Snapshots:
        """The same folder for the journal `owner`."""
        return Snapshots(self._location, self._base, owner, self._keys, tell)

    def as_stored(self) -> Snapshots:
        """The same folder, whose files are read and written without being decrypted."""
        return Snapshots(self._location, self._base, self._owner)

    def restore(self, name: str, content: bytes) -> None:
        """Writes the stored bytes of a file under a name. Raises OSError, UserError."""
        try:
            if self._fs is None:
                root = Path(self._root)
                draft, _ = self._written(lambda file: _put(file, content), root, name, name, True)
                draft.rename(root / name)
                _sync(root)
            else:
                with self._errors_named():
                    self._fs.pipe_file(f"{self._root}/{name}", content)
        except OSError as error:
            raise write_error(f"{self._root}/{name}", error) from None

    def prepare(self) -> None:
        """Creates the folder and tries to write a file.

        No bucket of an object store is created. Raises UserError, OSError, Unavailable.
        """
        name = f"{self._owner}-probe"
        try:
            if self._fs is None:
                root = Path(self._root)
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                protect([root, *root.glob(f"*{self._owner}-*")])
                (root / name).touch(mode=0o600)
                (root / name).unlink()
            else:
                with self._errors_named():
                    if not _BUCKETS.intersection(_names(self._fs.protocol)):
                        self._fs.makedirs(self._root, exist_ok=True)
                    self._fs.pipe_file(f"{self._root}/{name}", b"")
                    self._fs.rm_file(f"{self._root}/{name}")
        except OSError as error:
            if self._fs is not None and isinstance(error, FileNotFoundError):
                raise UserError(
                    f"run.snapshots: {self._root}: there is no such bucket or folder; create it, so"
                    " that you say who may read there"
                ) from None
            raise write_error(f"run.snapshots: {self._root}", error) from None

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Translates errors of a store at a URL, without the contents sent to the store.

        Raises UserError if the store refuses, Unavailable if the store does not answer, OSError
        for a missing file or a full disk of this machine.
        """
        try:
            yield
        except (FileNotFoundError, LogError, InvalidSeal, UserError):
            raise
        except Exception as error:
            if getattr(error, "errno", None) in _DISK_FULL:
                raise
            subject, kind = f"run.snapshots: {self._root}", type(error).__name__
            if "Credential" in kind or (isinstance(error, OSError) and is_lasting(error)):
                raise UserError(
                    f"{subject}: the store refuses: give this process credentials that may read,"
                    f" write and delete there ({kind})"
                ) from None
            raise Unavailable(f"{subject}: the store does not answer ({kind})") from None

    def write(self, population: Population) -> tuple[str, str]:
        """Writes a snapshot of the population; returns the name and SHA-256 as `store` does."""
        return self.store(f"period-{population.period:05d}", ".npz", population.save)

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
        stem = f"{self._owner}-{label}"
        try:
            return self._store(stem, suffix, save, durable)
        except OSError as error:
            raise write_error(f"{self._root}/{stem}{suffix}", error) from None

    def _store(
        self, stem: str, suffix: str, save: Callable[[BinaryIO], None], durable: bool
    ) -> tuple[str, str]:
        if self._fs is None:
            root = Path(self._root)
            temporary, digest = self._written(save, root, stem, stem + suffix, durable)
            name = f"{stem}-{digest[:16]}{suffix}"
            temporary.rename(root / name)
            if durable:
                _sync(root)
            return name, digest
        with TemporaryDirectory() as folder:
            temporary, digest = self._written(save, Path(folder), stem, stem + suffix, durable)
            name = f"{stem}-{digest[:16]}{suffix}"
            with self._errors_named():
                self._fs.put_file(str(temporary), f"{self._root}/{name}")
        return name, digest

    def _written(
        self,
        save: Callable[[BinaryIO], None],
        folder: Path,
        stem: str,
        bound: str,
        durable: bool,
    ) -> tuple[Path, str]:
        """Writes a file with mode 0600; returns the path and the SHA-256 of the content.

        The name is random, because two processes may write the same snapshot at once.

        bound: the name that an encrypted file is bound to.
        """
        opened, name = mkstemp(".tmp", f"{stem}-", folder)
        path = Path(name)
        try:
            with os.fdopen(opened, "r+b") as file:
                if self._keys is None:
                    save(file)
                else:
                    digest = write_sealed(file, self._keys, bound, save)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                if self._keys is None:
                    file.seek(0)
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                return path, digest
        except BaseException:
            path.unlink()
            raise

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
        aside_name, number = f"{_DAMAGED_PREFIX}{name}", 1
        while self.holds(aside_name):
            number += 1
            aside_name = f"{_DAMAGED_PREFIX}{number}-{name}"
        source, target = f"{self._root}/{name}", f"{self._root}/{aside_name}"
        try:
            if self._fs is None:
                Path(source).rename(target)
                _sync(Path(self._root))
            else:
                with self._errors_named():
                    self._fs.mv(source, target)
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            raise write_error(target, error) from None
        message = f"{fault}; it is kept as {aside_name}, and the input is replayed instead"
        self._tell(Event("snapshot-damaged", message))

    def damaged(self) -> list[str]:
        """The names of this journal's damaged files."""
        pattern = f"{_DAMAGED_PREFIX}*{self._owner}-*"
        if self._fs is None:
            paths = [str(path) for path in Path(self._root).glob(pattern)]
        else:
            with self._errors_named():
                paths = self._fs.glob(f"{self._root}/{pattern}")
        return sorted(path.rsplit("/", 1)[-1] for path in paths)

    @contextmanager
    def at(self, name: str) -> Iterator[BufferedReader | None]:
        """Opens a file by name without checking the hash; None for a missing file."""
        with ExitStack() as stack:
            try:
                path = Path(self._root) / name
                if self._fs is None:
                    protect([path])
                else:
                    path = Path(stack.enter_context(TemporaryDirectory())) / name
                    with self._errors_named():
                        self._fs.get_file(f"{self._root}/{name}", str(path))
                file = stack.enter_context(self._content(path.open("rb"), name))
            except FileNotFoundError:
                file = None
            yield file

    @contextmanager
    def in_place(self, name: str) -> Iterator[BinaryIO | None]:
        """Opens a file by name for partial reads; at a URL the file is not fetched as a whole."""
        if self._fs is None:
            with self.at(name) as local:
                yield local
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(self._errors_named())
                remote = self._fs.open(f"{self._root}/{name}", "rb", block_size=_READ_AHEAD)
                file = stack.enter_context(self._content(remote, name))
            except FileNotFoundError:
                file = None
            yield file

    def _content(self, file: _File, name: str) -> _File | BufferedReader:
        """The decrypted content of an open file."""
        if self._keys is None:
            return file
        stem, _, rest = name.rpartition("-")
        return open_sealed(file, self._keys, stem + Path(rest).suffix)

    def holds(self, name: str) -> bool:
        """Whether there is a file of that name."""
        path = f"{self._root}/{name}"
        if self._fs is None:
            return Path(path).exists()
        with self._errors_named():
            return bool(self._fs.exists(path))

    def keep(
        self,
        names: set[str],
        label: str = "period",
        upto: int | None = None,
        spare: Collection[str] = (),
    ) -> None:
        """Removes all snapshots of this journal with a label, except the snapshots in `names`.

        label: the beginning of `label` in `store`.
        upto: the largest number after the label to remove; None removes all numbers.
        spare: texts after the label; files with one of these texts are kept.
        """
        stem = f"{self._owner}-{label}-"
        if self._fs is None:
            paths = [str(path) for path in Path(self._root).glob(f"{stem}*")]
        else:
            with self._errors_named():
                paths = self._fs.glob(f"{self._root}/{stem}*")
        for path in paths:
            name = path.rsplit("/", 1)[-1]
            number = name.removeprefix(stem).partition("-")[0]
            if name in names or (upto is not None and number.isdigit() and int(number) > upto):
                continue
            if any(name.startswith(f"{stem}{name_part}-") for name_part in spare):
                continue
            if self._fs is None:
                Path(path).unlink(missing_ok=True)
            else:
                with self._errors_named():
                    self._fs.rm_file(path)


def _put(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def _names(protocol: str | tuple[str, ...]) -> set[str]:
    return {protocol} if isinstance(protocol, str) else set(protocol)


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


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
