"""The places of both logs' files, by which a releaser refuses a copy of them.

A copy in use beside its original would draw noise for the same periods again.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_dp.errors import Inconsistent
from stream_dp.log.base import Log
from stream_dp.log.message import Message
from stream_dp.log.place import same_place

from . import journal
from .journal import Entry

_WORDS = {"log": "confidential log", "public": "public log"}


def placed_entry(
    entries: Sequence[Entry], log: Log, public: Log, *, published: bool, moved: bool, file: str
) -> Message | None:
    """The entry that notes new places in the journal; None where they have not changed.

    published: whether the public log has messages; an empty one may be in another file.
    moved: whether the operator states that the files were moved and no other copy is in use.
    file: the name of the study file, for the advice.

    Raises Inconsistent where a place has changed and `moved` is not set.
    """
    now = log_places(log, public)
    known = _known(entries)
    changed = [name for name in now if is_elsewhere(known.get(name, ""), now[name])]
    refused = [name for name in changed if name == "log" or published]
    if refused and not moved:
        raise Inconsistent(advice(refused[0], file))
    first = not known and any(now.values())
    return journal.placed(entries[-1].message, now) if changed or first else None


def log_places(log: Log, public: Log) -> dict[str, str]:
    """The places of both logs' files now, by `log` and `public`."""
    return {"log": log.place, "public": public.place}


def check_place(entries: Sequence[Entry], log: Log, file: str) -> None:
    """Raises Inconsistent where the confidential log is not the file that the journal notes."""
    if is_elsewhere(_known(entries).get("log", ""), log.place):
        raise Inconsistent(advice("log", file))


def advice(name: str, file: str) -> str:
    """The message for a changed place of the log `name`."""
    return (
        f"{_WORDS[name]}: not the file that the journal was written with: it was copied, moved or"
        " restored; where the original goes on too, both draw noise for the same periods and the"
        f" guarantee is lost; if this one alone goes on: stream-dp run {file} --moved"
    )


def _known(entries: Sequence[Entry]) -> dict[str, str]:
    """The places that the journal noted last; empty in a journal of an older version."""
    return next((e.places for e in reversed(entries) if e.places), {})


def is_elsewhere(known: str, now: str) -> bool:
    """Whether a file is in another place than the known one; False where either is empty."""
    return bool(known and now) and not same_place(known, now)
