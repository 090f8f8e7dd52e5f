"""Which files a journal was written in: a copy must not draw noise beside its original."""

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
    """The entry by which the journal notes where it goes on; None where it knows that.

    published: whether the public log holds anything; one that is empty may be made anew.
    moved: the operator's word that the files were moved and no other copy goes on.
    file: the study's, for the advice.

    Raises Inconsistent where a file is another one and `moved` is not set.
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
    """Where the files of both logs are now."""
    return {"log": log.place, "public": public.place}


def check_place(entries: Sequence[Entry], log: Log, file: str) -> None:
    """That the confidential log is the file that the journal knows. Raises Inconsistent."""
    if is_elsewhere(_known(entries).get("log", ""), log.place):
        raise Inconsistent(advice("log", file))


def advice(name: str, file: str) -> str:
    return (
        f"{_WORDS[name]}: not the file that the journal was written with: it was copied, moved or"
        " restored; where the original goes on too, both draw noise for the same periods and the"
        f" guarantee is lost; if this one alone goes on: stream-dp run {file} --moved"
    )


def _known(entries: Sequence[Entry]) -> dict[str, str]:
    """Places as the journal noted them last; empty in one from before there were any."""
    return next((e.places for e in reversed(entries) if e.places), {})


def is_elsewhere(known: str, now: str) -> bool:
    return bool(known and now) and not same_place(known, now)
