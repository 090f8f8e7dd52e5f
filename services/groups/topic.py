"""The topic of the operator's tables, of groups or of places: the last one before a study begins.

A table is a message; the journal's first entry has the hash of the one that a study began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, Protocol, TypeVar

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, Missing, Writer
from stream_dp.log.message import START, Message, build_message, message_records, read_messages
from stream_dp.study import Study
from stream_dp.topics import GROUPS

from .. import journal
from ..binding import bind
from ..deployment import Deployment

NONE_SENT = {
    "groups": "groups: the study declares groups, and no table of groups was sent: stream-dp groups"
    " STUDY.toml GROUPS.csv MEMBERS.csv",
    "places": "places: the study declares places, and no table of places was sent: stream-dp places"
    " STUDY.toml PLACES.csv",
}
_STAYS = {
    "groups": "groups and who belongs to them stay as they are over the whole history",
    "places": "places and their regions stay as they are over the whole history",
}


class _Table(Protocol):
    @property
    def hash(self) -> str: ...


_Kind = TypeVar("_Kind", bound=_Table)


def checked_table(what: str, table: _Kind | None, bound: str | None) -> _Kind:
    """The last table that was sent, where it is the one to be used.

    what: `groups` or `places`.
    bound: the hash of the table that the journal was begun with; None before it is begun.

    Raises UserError where no table was sent, Inconsistent where it is not the one of the journal.
    """
    if table is None and bound is None:
        raise UserError(NONE_SENT[what])
    if table is None or (bound is not None and table.hash != bound):
        raise Inconsistent(
            f"{what}: this is not the table that the journal was begun with; {_STAYS[what]}:"
            " restore the confidential log"
        )
    return table


def commit_table(
    log: Log, study: Study, *, kind: str, digest: str, parts: Sequence[tuple[str, bytes]]
) -> bool:
    """Writes a table unless it is the last one in the topic; returns whether it was written.

    kind: its type, which ends in what it is of.
    digest: its hash.

    Raises UserError once the study has begun with another, Inconsistent where the log belongs to
    another study.
    """
    bind(log, study)
    log.create({GROUPS: 1})
    # Only the owner may write, so the chain does not change between reading and writing.
    with log.own("groups") as writer:
        sent = list(read_messages(log, GROUPS, "groups"))
        if sent and sent[-1].head["hash"] == digest:
            return False
        bound = _bound(log)
        if bound in {None, digest}:
            head = {"type": kind, "hash": digest}
            _append(writer, study.name, sent, head=head, parts=parts)
            bound = _bound(log)
            if bound not in {None, digest}:
                # The study began meanwhile, with a table from before: that one stays the last.
                for earlier in [message for message in sent if message.head["hash"] == bound][:1]:
                    _append(writer, study.name, sent, head=earlier.head, parts=earlier.parts)
    if bound not in {None, digest}:
        what = "places" if kind.endswith("places") else "groups"
        raise UserError(f"{what}: the study has begun with another table; {_STAYS[what]}")
    return True


def _bound(log: Log) -> str | None:
    """The hash of the table that the study began with; None before it began."""
    with suppress(Missing):
        entries = journal.read_heads(log)
        return str(entries[0].genesis.groups) if entries else None
    return None


def _append(
    writer: Writer,
    study: str,
    chain: list[Message],
    *,
    head: dict[str, Any],
    parts: Sequence[tuple[str, bytes]],
) -> None:
    """Commits a message at the end of the chain; appends it to `chain`."""
    index, before = (chain[-1].index + 1, chain[-1].hash) if chain else (0, START)
    chain.append(build_message(index, before, head, parts))
    writer.commit(
        message_records(
            chain[-1],
            GROUPS,
            kind=str(head["type"]),
            source=f"stream-dp/{study}",
            content="application/octet-stream",
            time=None,
        )
    )


def last_table(log: Log) -> Message | None:
    """The last table that was sent, or None."""
    last = None
    with suppress(Missing):
        for last in read_messages(log, GROUPS, "groups"):  # noqa: B007
            pass
    return last


def has_table(deployment: Deployment) -> bool:
    """Whether a table was sent."""
    try:
        with closing(deployment.log(readonly=True)) as log:
            return last_table(log) is not None
    except Missing:
        return False
