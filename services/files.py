"""Files that commands write, which appear only once they are complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stream_dp.errors import write_error


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A draft that replaces the file at `path` when the block ends without an error.

    Raises UserError where the path is at fault, an OSError that names it where there is no room.
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


# Suffixes of the files that describe the others of a folder.
_REPORTS = (".txt", ".json")


@contextmanager
def writing_folder(folder: Path) -> Iterator[Path]:
    """An empty draft folder, whose files move to `folder` once all of them are complete.

    A new folder appears at once, with all files. In a folder that is there already, files with
    other names stay, and texts and JSON are absent while the rest is replaced: after a crash no
    report stands beside figures that are not its own.

    Raises UserError where the path is at fault, an OSError that names it where there is no room.
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
