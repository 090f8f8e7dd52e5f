"""The topic of the operator's tables of groups or places.

A table is a message. The study uses the last table before the study begins; the journal's first
entry has the table's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Protocol, TypeVar

from stream_dp.errors import Inconsistent, UserError
from stream_dp.json_object import Json
from stream_dp.log.log import Log, Missing, Writer
from stream_dp.log.message import START, Message, build_message, message_records, read_messages
from stream_dp.study import Study
from stream_dp.study.topics import GROUPS

from ..deployment import Deployment
from ..intake.binding import bind
from ..journal import journal

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


def checked_table(table_name: str, table: _Kind | None, bound: str | None) -> _Kind:
    """Returns the last table in the topic if the study may use the table.

    table_name: `groups` or `places`.
    bound: the hash of the table in the journal's first entry; None before the first entry.

    Raises UserError if no table was sent, Inconsistent if the hash is not the journal's.
    """
    if table is None and bound is None:
        raise UserError(NONE_SENT[table_name])
    if table is None or (bound is not None and table.hash != bound):
        raise Inconsistent(
            f"{table_name}: this is not the table that the journal was begun with;"
            f" {_STAYS[table_name]}: restore the confidential log"
        )
    return table


def commit_table(
    log: Log, study: Study, *, kind: str, digest: str, message_parts: Sequence[tuple[str, bytes]]
) -> bool:
    """Writes a table unless the topic ends with the same table; returns whether it was written.

    kind: the type of the message, which ends in `groups` or `places`.
    digest: the hash of the table.
    message_parts: names and contents of the message's parts.

    Raises UserError if the study has begun with another table, Inconsistent if the log belongs to
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
            _append(writer, study.name, sent, head=head, message_parts=message_parts)
            bound = _bound(log)
            if bound not in {None, digest}:
                # The study began meanwhile, with a table from before: that one stays the last.
                for earlier in [message for message in sent if message.head["hash"] == bound][:1]:
                    _append(
                        writer, study.name, sent, head=earlier.head, message_parts=earlier.parts
                    )
    if bound not in {None, digest}:
        table_name = "places" if kind.endswith("places") else "groups"
        raise UserError(
            f"{table_name}: the study has begun with another table; {_STAYS[table_name]}"
        )
    return True


def _bound(log: Log) -> str | None:
    """The hash of the table in the journal's first entry; None before the first entry."""
    with suppress(Missing):
        entries = journal.read_heads(log)
        return str(entries[0].genesis.groups) if entries else None
    return None


def _append(
    writer: Writer,
    study: str,
    chain: list[Message],
    *,
    head: Json,
    message_parts: Sequence[tuple[str, bytes]],
) -> None:
    """Commits a message at the end of `chain`, and appends the message to `chain`."""
    index, previous_hash = (chain[-1].index + 1, chain[-1].hash) if chain else (0, START)
    chain.append(build_message(index, previous_hash, head, message_parts))
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
    """The last table in the topic, or None."""
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
