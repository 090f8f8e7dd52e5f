"""Writes files under their final names only when complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stream_dp.errors import UserError, write_error


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields a draft that replaces the file at `path` when the block ends without an error.

    Raises UserError for a faulty path, OSError with the path for a full disk.
    """
    target = path.resolve()
    draft = target.with_name(f".{target.stem}-part{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_new_file(path: Path, text: str) -> None:
    """Writes a new file. Raises UserError if the file exists, and OSError for a full disk.

    Nothing of an incomplete file stays.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path}: is there already; nothing was written") from None
    except OSError as error:
        with suppress(OSError):  # an incomplete file of this call
            path.unlink()
        raise write_error(path, error) from None


# Suffixes of the files that describe the others of a folder.
_REPORTS = (".txt", ".json", ".jsonld", ".xml")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty draft folder; the files move to `folder` at the end of the block.

    A new folder appears at once, with all files. In a folder that is there already, files with
    other names stay, and texts, JSON and XML are absent while the rest is replaced: after a crash
    no report stands beside figures that are not its own.

    Raises UserError for a faulty path, OSError with the path for a full disk.
    """
    target = folder.resolve()
    exists = target.is_dir()
    draft = (target if exists else target.parent) / f".{target.name}-part"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        if exists:
            _move_files(draft, target)
        else:
            draft.replace(target)
    except OSError as error:
        raise write_error(folder, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_files(draft: Path, target: Path) -> None:
    files = sorted(draft.iterdir(), key=lambda file: (file.suffix in _REPORTS, file.name))
    for file in files:
        if file.suffix in _REPORTS:
            (target / file.name).unlink(missing_ok=True)
    for file in files:
        file.replace(target / file.name)
