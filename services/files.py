"""Files that commands write: whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stream_dp.errors import write_error


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A draft that takes the name `path` once it is complete; what was there stays until then.

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
