"""The places of both logs and the mark beside the confidential one, which tell a restored log.

A copy in use beside its original would draw noise for the same periods again, and so would an
older journal. The journal notes the places, by which a copy is found. The mark names the last
entry of the journal; it is written before anything of that entry is published, so that an older
journal is found where the files are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_dp.errors import Inconsistent
from stream_dp.log.base import Log
from stream_dp.log.message import Message
from stream_dp.log.place import is_file_place, same_place
from stream_dp.topics import RELEASES

from . import journal
from .journal import Entry

ROLE = "releaser"  # of the journal's one writer
_WORDS = {"log": "confidential log", "public": "public log"}


@dataclass(frozen=True)
class Mark:
    """The last entry that was committed to a journal: its index and its hash."""

    index: int
    hash: str

    @classmethod
    def of(cls, message: Message) -> Mark:
        """The mark of a journal that ends with this message."""
        return cls(message.index, message.hash)

    @classmethod
    def read(cls, content: bytes) -> Mark | None:
        """The mark with this content; None for any other, such as none at all."""
        index, _, digest = content.partition(b" ")
        if index.isdigit() and len(digest) == 64 and digest.isalnum():
            return cls(int(index), digest.decode())
        return None

    @property
    def content(self) -> bytes:
        return f"{self.index} {self.hash}".encode()


def placed_entry(
    entries: Sequence[Entry], log: Log, public: Log, *, published: bool, moved: bool, file: str
) -> Message | None:
    """The entry that notes new places in the journal; None where they have not changed.

    published: whether the public log has messages.
    moved: whether the operator states that the logs were moved and no other copy is in use.
    file: the name of the study file, for the advice.

    Raises Inconsistent where the journal is older than its mark. Raises it too without `moved`
    where a place has changed, where the mark is lost, and where releases were drawn but the public
    log is empty, so that nothing shows whether an older journal was restored.
    """
    check_mark(entries, log)
    known, now = _known(entries), log_places(log, public)
    changed = [name for name in now if not same_place(known[name], now[name])]
    if not moved:
        check_place(entries, log, file)
        if not published and _drawn(entries):
            raise Inconsistent(
                "public log: it is empty, but the journal has decided releases: it was removed or"
                " emptied, so nothing shows whether the journal is an older one; restore the"
                " public log; if the journal is the newest and this one alone goes on:"
                f" stream-dp run {file} --moved, which publishes the same bytes again"
            )
        if changed:
            raise Inconsistent(advice(changed[0], now[changed[0]], file))
    return journal.placed(entries[-1].message, now) if changed else None


def log_places(log: Log, public: Log) -> dict[str, str]:
    """The places of both logs now, by `log` and `public`.

    On a cluster it is the identity of the public topic, and empty for the confidential log, as
    genesis names the reports' identity.
    """
    return {"log": log.place, "public": public.place or public.describe(RELEASES).identity}


def check_place(entries: Sequence[Entry], log: Log, file: str) -> None:
    """Raises Inconsistent where the confidential log is not the one that the journal notes.

    Raises it too where the journal is older than the mark beside it, or where the mark is lost.
    """
    check_mark(entries, log)
    if not same_place(_known(entries)["log"], log.place):
        raise Inconsistent(advice("log", log.place, file))
    if log.place and _drawn(entries) and Mark.read(log.mark(ROLE)) is None:
        raise Inconsistent(
            "confidential log: the mark beside it (FILE.releaser.mark) is gone, so nothing shows"
            " whether the journal is an older one; restore that file; if the journal is the newest"
            f" and this one alone goes on: stream-dp run {file} --moved"
        )


def check_mark(entries: Sequence[Entry], log: Log) -> None:
    """Raises Inconsistent where the journal lacks the entry that the mark beside it names."""
    check_marked([entry.message.hash for entry in entries], log.mark(ROLE))


def check_marked(hashes: Sequence[str], content: bytes) -> None:
    """Raises Inconsistent where a journal lacks the entry that a mark names.

    hashes: of the journal's entries, in order.
    content: of the mark.
    """
    mark = Mark.read(content)
    if mark is None or (mark.index == 0 and not hashes):  # nothing was drawn
        return
    if mark.index >= len(hashes):
        ends = f"ends at entry {len(hashes) - 1}" if hashes else "is empty"
        raise Inconsistent(
            f"journal: it {ends}, but the mark beside it names entry {mark.index}: an older"
            " confidential log was restored; bring back the newer one, for its noise must not be"
            " drawn again, or begin a new study with new logs"
        )
    if hashes[mark.index] != mark.hash:
        raise Inconsistent(
            f"journal: entry {mark.index} is not the one that the mark beside it names: another"
            " confidential log was restored; bring back the one that was here"
        )


def advice(name: str, place: str, file: str) -> str:
    """The message for a changed place of the log `name`. place: where it is now."""
    what = "file" if is_file_place(place) else "topic"
    return (
        f"{_WORDS[name]}: not the {what} that the journal was written with: it was copied, moved or"
        " restored; where the original goes on too, both draw noise for the same periods and the"
        f" guarantee is lost; if this one alone goes on: stream-dp run {file} --moved"
    )


def _drawn(entries: Sequence[Entry]) -> bool:
    """Whether the journal has noise: whether a period was closed."""
    return any(entry.closes for entry in entries[1:])


def _known(entries: Sequence[Entry]) -> dict[str, str]:
    """The places that the journal noted last."""
    return next(e.places for e in reversed(entries) if e.places)
