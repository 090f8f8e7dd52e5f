"""Detection of copied and restored logs: the identities of both logs and the mark.

A copy in use beside the original would draw noise for the same periods again, and so would an
older journal. The journal notes the identities of both logs, so that a copy is detected. The mark
is a file beside the confidential log and names the last entry of the journal. The mark is written
before anything of the entry is published, so that an older journal in the same file is detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Log
from stream_dp.log.message import Message
from stream_dp.log.owned_files import is_file_identity, same_identity
from stream_dp.study.topics import RELEASES

from . import journal
from .journal import Entry

if TYPE_CHECKING:
    from .snapshots import Snapshots

ROLE = "releaser"  # of the journal's one writer
_LOG_NAMES = {"log": "confidential log", "public": "public log"}


@dataclass(frozen=True)
class Mark:
    """The last entry that was committed to a journal: its index and its hash."""

    index: int
    hash: str

    @classmethod
    def of(cls, message: Message) -> Mark:
        """The mark of a journal with the last message `message`."""
        return cls(message.index, message.hash)

    @classmethod
    def read(cls, content: bytes) -> Mark | None:
        """Parses a mark; returns None for an empty or damaged mark."""
        index, _, digest = content.partition(b" ")
        if index.isdigit() and len(digest) == 64 and digest.isalnum():
            return cls(int(index), digest.decode())
        return None

    @property
    def content(self) -> bytes:
        return f"{self.index} {self.hash}".encode()


def moved_entry(
    entries: Sequence[Entry], log: Log, public: Log, *, published: bool, moved: bool, file: str
) -> Message | None:
    """The journal entry with new identities. None without changes.

    published: whether the public log has messages.
    moved: whether the operator states that the logs were moved and no other copy is in use.
    file: the name of the study file, for the advice.

    Raises Inconsistent if the journal is older than the mark. Without `moved` raises Inconsistent
    too if an identity has changed, if the mark is lost, and if releases were drawn but the public
    log is empty, so that nothing shows whether an older journal was restored.
    """
    check_mark(entries, log)
    noted, current = _noted_identities(entries), log_identities(log, public)
    changed = [name for name in current if not same_identity(noted[name], current[name])]
    if not moved:
        check_identity(entries, log, file)
        if not published and journal.has_drawn(entries):
            raise Inconsistent(
                "public log: it is empty, but the journal has decided releases: it was removed or"
                " emptied, so nothing shows whether the journal is an older one; restore the"
                " public log; if the journal is the newest and this one alone goes on:"
                f" stream-dp run {file} --moved, which publishes the same bytes again"
            )
        if changed:
            raise Inconsistent(advice(changed[0], current[changed[0]], file))
    return journal.placed(entries[-1].message, current) if changed else None


def log_identities(log: Log, public: Log) -> dict[str, str]:
    """The current identities of both logs, by `log` and `public`.

    On a cluster the public log has the identity of the public topic. The confidential log has an
    empty identity, because genesis names the identity of the reports' topic.
    """
    return {
        "log": log.file_identity,
        "public": public.file_identity or public.describe(RELEASES).identity,
    }


def check_files(entries: Sequence[Entry], log: Log, public: Log, file: str) -> None:
    """Raises Inconsistent if a file of the logs is gone, or another than the journal notes."""
    noted = _noted_identities(entries)
    for name, side in (("log", log), ("public", public)):
        if not is_file_identity(noted[name]):
            continue  # of a cluster
        try:
            current = side.file_identity
        except OSError as error:
            raise Inconsistent(
                f"{_LOG_NAMES[name]}: its file is gone: {error.filename}; bring it back"
            ) from None
        if not same_identity(noted[name], current):
            raise Inconsistent(advice(name, current, file))


def check_identity(entries: Sequence[Entry], log: Log, file: str) -> None:
    """Checks that the confidential log has the identity in the journal, and the mark.

    Raises Inconsistent for another identity, a journal older than the mark, or a lost mark.
    """
    check_mark(entries, log)
    if not same_identity(_noted_identities(entries)["log"], log.file_identity):
        raise Inconsistent(advice("log", log.file_identity, file))
    if log.file_identity and journal.has_drawn(entries) and Mark.read(log.mark(ROLE)) is None:
        raise Inconsistent(
            "confidential log: the mark beside it (FILE.releaser.mark) is gone, so nothing shows"
            " whether the journal is an older one; restore that file; if the journal is the newest"
            f" and this one alone goes on: stream-dp run {file} --moved"
        )


def check_mark(entries: Sequence[Entry], log: Log) -> None:
    """Raises Inconsistent if the journal lacks the entry named by the mark."""
    check_marked([entry.message.hash for entry in entries], log.mark(ROLE))


def check_marked(hashes: Sequence[str], content: bytes) -> None:
    """Raises Inconsistent if a journal lacks the entry named by a mark.

    hashes: the hashes of the journal's entries, in order.
    content: the content of the mark.
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
            " confidential log was restored, or another mark (FILE.releaser.mark); bring back the"
            " one that was here"
        )


def check_snapshots(entries: Sequence[Entry], snapshots: Snapshots) -> None:
    """Raises Inconsistent if a snapshot shows that the journal is an older one.

    A snapshot of the period after the last close may belong to a close under way. A snapshot of a
    later period follows the publication of the one between.

    snapshots: the study's.
    """
    closed = journal.closes(entries)[-1].number
    newest = snapshots.of(entries[0].message.hash[:12]).newest_period()
    if newest > closed + 1:
        raise Inconsistent(
            f"snapshots: the population of period {newest} is there, but the journal has closed"
            f" {closed} periods: an older confidential log was restored; bring back the newer one,"
            " for its noise must not be drawn again"
        )


def advice(name: str, identity: str, file: str) -> str:
    """The message about a changed identity of the log `name`. identity: the current one."""
    kind = "file" if is_file_identity(identity) else "topic"
    return (
        f"{_LOG_NAMES[name]}: not the {kind} that the journal was written with: it was copied,"
        " moved or restored; where the original goes on too, both draw noise for the same periods"
        f" and the guarantee is lost; if this one alone goes on: stream-dp run {file} --moved"
    )


def _noted_identities(entries: Sequence[Entry]) -> dict[str, str]:
    """The identities noted last in the journal."""
    return next(e.places for e in reversed(entries) if e.places)
