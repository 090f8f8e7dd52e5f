"""The topic of the operator's tables of groups or places.

A table is a message. The study uses the last table before the study begins; the journal's first
entry has the table's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

import pyarrow as pa

from stream_dp.errors import Inconsistent, UserError
from stream_dp.json_object import Json
from stream_dp.log.log import Forbidden, Log, Missing, Writer
from stream_dp.log.message import START, Message, build_message, read_messages
from stream_dp.study import Study
from stream_dp.study.topics import GROUPS

from ..storage import journal
from ..storage.deployment import Deployment, bind
from ..storage.journal_heads import study_records
from .group_tables import PlacesTable, Roster

_NONE_SENT = {
    "groups": "groups: the study declares groups, and no table of groups was sent: stream-dp groups"
    " STUDY.toml GROUPS.csv MEMBERS.csv",
    "places": "places: the study declares places, and no table of places was sent: stream-dp places"
    " STUDY.toml PLACES.csv",
}
_STAYS = {
    "groups": "groups and who belongs to them stay as they are over the whole history",
    "places": "places and their regions stay as they are over the whole history",
}
_Table = TypeVar("_Table", Roster, PlacesTable)


def bound_table(log: Log, study: Study, bound: str | None) -> Roster | PlacesTable | None:
    """The table of groups or of places; None for a study with neither. See `bound_table_of`."""
    if study.places is not None:
        return bound_table_of(PlacesTable, log, study, bound)
    return bound_table_of(Roster, log, study, bound)


def bound_table_of(kind: type[_Table], log: Log, study: Study, bound: str | None) -> _Table | None:
    """The last table of a kind; None if the study declares no table of the kind.

    bound: the hash of the table in the journal's first entry; None before the first entry.

    Raises UserError if no table was sent or the table does not fit the study, Inconsistent if the
    table has another hash than the journal's.
    """
    if getattr(study, kind.name) is None:
        return None
    table = read_table(kind, log)
    if table is None and bound is None:
        raise UserError(_NONE_SENT[kind.name])
    if table is None or (bound is not None and table.hash != bound):
        raise Inconsistent(
            f"{kind.name}: this is not the table that the journal was begun with;"
            f" {_STAYS[kind.name]}: restore the confidential log"
        )
    table.check(study)
    return table


def read_table(kind: type[_Table], log: Log) -> _Table | None:
    """The last table in the topic if it is of a kind. Raises Inconsistent for a wrong hash."""
    last = _last_message(log)
    if last is None or last.head["type"] != _message_type(kind):
        return None
    table = kind.of_tables(partial(_rows, last))
    if table.hash != last.head["hash"]:
        raise Inconsistent(f"{kind.name}: the table does not have its hash; send it again")
    return table


def _rows(message: Message, name: str) -> pa.Table:
    data = message.part(name)
    return pa.ipc.open_stream(data).read_all() if data else None


def _message_type(kind: type[Roster] | type[PlacesTable]) -> str:
    return f"stream-dp.{kind.name}"


def send_table(deployment: Deployment, table: Roster | PlacesTable) -> bool:
    """Sends a table to a deployment's log; see `commit_table`."""
    with closing(deployment.log()) as log:
        return commit_table(log, deployment.study, table)


def commit_table(log: Log, study: Study, table: Roster | PlacesTable) -> bool:
    """Writes a table unless the topic ends with the same table; returns whether it was written.

    Raises UserError if the study has begun with another table, Inconsistent if the log belongs to
    another study.
    """
    bind(log, study)
    log.create({GROUPS: 1})
    # Only the owner may write, so the chain does not change between reading and writing.
    with log.own("groups") as writer:
        sent = list(read_messages(log, GROUPS, "groups"))
        if sent and sent[-1].head["hash"] == table.hash:
            return False
        bound = _bound(log)
        if bound in {None, table.hash}:
            head = {"type": _message_type(type(table)), "hash": table.hash}
            _append(writer, study, sent, head, table.message_parts())
            bound = _bound(log)
            if bound not in {None, table.hash}:
                # The study began meanwhile, with a table from before: that one stays the last.
                for earlier in [message for message in sent if message.head["hash"] == bound][:1]:
                    _append(writer, study, sent, earlier.head, earlier.parts)
    if bound not in {None, table.hash}:
        raise UserError(
            f"{table.name}: the study has begun with another table; {_STAYS[table.name]}"
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
    study: Study,
    chain: list[Message],
    head: Json,
    message_parts: Sequence[tuple[str, bytes]],
) -> None:
    """Commits a message at the end of `chain`, and appends the message to `chain`."""
    index, previous_hash = (chain[-1].index + 1, chain[-1].hash) if chain else (0, START)
    chain.append(build_message(index, previous_hash, head, message_parts))
    kind, content = str(head["type"]), "application/octet-stream"
    writer.commit(study_records(chain[-1], GROUPS, study, kind, content))


def _last_message(log: Log) -> Message | None:
    last = None
    with suppress(Missing):
        for last in read_messages(log, GROUPS, "groups"):  # noqa: B007
            pass
    return last


def has_table(deployment: Deployment) -> bool:
    """Whether a table was sent."""
    try:
        with closing(deployment.log(readonly=True)) as log:
            return _last_message(log) is not None
    except Missing:
        return False


def study_with_places(deployment: Deployment) -> Study:
    """The study with the keys of places, for judging reports.

    Returns the declared study if reports name no places, or if this user may not read the log.
    Raises UserError if no table was sent.
    """
    study = deployment.study
    if study.places is None or study.places.counted:
        return study
    try:
        with closing(deployment.log(readonly=True)) as log:
            table = read_table(PlacesTable, log)
    except Missing:
        table = None
    except Forbidden:
        return study
    if table is None:
        raise UserError(_NONE_SENT["places"])
    return table.of_study(study)
