"""Writes files under their final names only when complete and durable, and checks their modes.

Files are confidential unless a caller says that they are public. A confidential file has mode 0600
and a confidential folder 0700. A public file has mode 0644 and a public folder 0755, less what the
umask takes away. So no umask opens a confidential file, and none lets others write a public one.

A restored file has the mode that the restoring program gives it, often one for everybody. A
confidential file that is open to others is closed, or refused.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from stream_dp.errors import UserError, write_error
from stream_dp.log.owned_files import make_folder, sync_folder


@contextmanager
def atomic_file(path: Path, *, public: bool = False) -> Iterator[Path]:
    """Yields a draft that replaces the file at `path` when the block ends without an error.

    Raises UserError for a faulty path, OSError with the path for a full disk.
    """
    target = path.resolve()
    draft = _draft_path(target)
    try:
        os.close(_created(draft, public))
        yield draft
        adopt_draft(draft, target)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_text_file(path: Path, text: str, *, public: bool = False) -> None:
    """Writes a file in place of an earlier one. Raises as `atomic_file`.

    The draft has no suffix: a program that reads all files with a suffix does not read it.
    """
    target, draft = path.resolve(), None
    try:
        draft, file = open_draft(target, public=public)
        with file:
            file.write(text)
        adopt_draft(draft, target)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def write_new_file(path: Path, text: str, *, public: bool = False) -> None:
    """Writes a new file. Raises UserError if the file exists, and OSError for a full disk.

    Nothing of an incomplete file stays.
    """
    try:
        created = _created(path, public)
    except FileExistsError:
        raise UserError(f"{path}: is there already; nothing was written") from None
    except OSError as error:
        raise write_error(path, error) from None
    try:
        with os.fdopen(created, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # an incomplete file of this call
            path.unlink()
        raise write_error(path, error) from None


def open_draft(target: Path, *, public: bool = False) -> tuple[Path, TextIO]:
    """Opens a draft of a text beside its target. Raises OSError."""
    draft = target.with_name(f".{target.name}-{uuid4().hex}")
    return draft, os.fdopen(_created(draft, public), "w", encoding="utf-8")


def adopt_draft(draft: Path, target: Path) -> None:
    """Gives a complete draft its name. Both are durable on return. Raises OSError."""
    _sync(draft)
    draft.replace(target)
    sync_folder(target.parent)


# Suffixes of the files that describe the others of a folder.
_REPORTS = (".txt", ".json", ".jsonld", ".xml")


@contextmanager
def atomic_folder(folder: Path, *, public: bool = False) -> Iterator[Path]:
    """Yields an empty draft folder; the files move to `folder` at the end of the block.

    A new folder appears at once, with all files. In a folder that is there already, files with
    other names stay, and texts, JSON and XML are absent while the rest is replaced: after a crash
    no report stands beside figures that are not its own.

    Raises UserError for a faulty path, OSError with the path for a full disk.
    """
    target = folder.resolve()
    exists = target.is_dir()
    draft = _draft_path(target / target.name if exists else target)
    try:
        make_folder(draft.parent, public=public)
        draft.mkdir(0o755 if public else 0o700)
        yield draft
        for file in draft.iterdir():
            mode = file.stat().st_mode & 0o644 if public else 0o600
            file.chmod(mode)
            _sync(file)
        if exists:
            _move_files(draft, target)
        else:
            sync_folder(draft)
            draft.replace(target)
            sync_folder(target.parent)
    except OSError as error:
        raise write_error(folder, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_files(draft: Path, target: Path) -> None:
    """Moves files to a folder; reports go first from there, and come last."""
    files = sorted(draft.iterdir(), key=lambda file: (file.suffix in _REPORTS, file.name))
    for file in files:
        if file.suffix in _REPORTS:
            (target / file.name).unlink(missing_ok=True)
    for file in files:
        file.replace(target / file.name)
    sync_folder(target)


def _draft_path(target: Path) -> Path:
    """A name that nobody can foresee, hidden, with the suffix of the target."""
    return target.with_name(f".{target.stem}-{uuid4().hex}{target.suffix}")


def _created(path: Path, public: bool) -> int:
    """Creates a file, which must not exist, and opens it for writing. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(path, flags, 0o644 if public else 0o600)


def _sync(file: Path) -> None:
    opened = os.open(file, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_OTHERS = stat.S_IRWXO
_OWNER = stat.S_IRWXU


def _print(line: str) -> None:
    print(f"stream-dp: {line}", file=sys.stderr, flush=True)


_tell: ContextVar[Callable[[str], None]] = ContextVar("tell", default=_print)


@contextmanager
def reporting_mended_modes(tell: Callable[[str], None]) -> Iterator[None]:
    """Reports every mended mode to `tell` inside the block."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def protect(paths: Iterable[Path]) -> None:
    """Removes the rights of the group and of other users from world-accessible paths.

    paths: files and folders; missing paths are skipped.

    Raises UserError for another user's file that is readable for everybody.
    """
    for path in paths:
        with suppress(FileNotFoundError):
            _protect(path, path.stat())


def _protect(path: Path, status: os.stat_result) -> None:
    """Makes a file private, with a notice. Raises UserError for another user's file."""
    mode = stat.S_IMODE(status.st_mode)
    if not mode & _OTHERS:
        return
    if os.geteuid() not in {0, status.st_uid}:
        if stat.S_ISDIR(status.st_mode):
            return  # a volume's; the files in it have modes of their own
        raise UserError(
            f"{path}: is confidential and open to every user (mode {mode:04o}), and belongs to"
            f" another user: have its owner run: chmod {mode & _OWNER:o} {path}"
        )
    try:
        path.chmod(mode & _OWNER)
    except OSError as error:
        raise write_error(path, error) from None
    _tell.get()(
        f"{path}: is confidential and was open to every user (mode {mode:04o}); its mode is"
        f" {mode & _OWNER:04o} now; whoever read it meanwhile may have a copy"
    )
