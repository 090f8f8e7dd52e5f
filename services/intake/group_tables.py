"""The operator's tables of groups with their members, and of places in regions. Confidential.

A table is a message in the topic `groups`. The study uses the last table before the study begins;
the journal's first entry has the table's hash. A roster has the attributes of each group, and its
members. A table of places has the places of each smallest region, by their keys or as a number;
with a table of counts, also the number of places of each size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.json_object import Json
from stream_dp.log.log import Forbidden, Log, Missing, Writer
from stream_dp.log.message import START, Message, build_message, read_messages, split_part
from stream_dp.release.arrow_parts import ipc_stream
from stream_dp.study import Study
from stream_dp.study.group_releases import Groups
from stream_dp.study.topics import GROUPS

from ..storage import journal
from ..storage.deployment import Deployment, bind
from ..storage.journal_heads import study_records


@dataclass(frozen=True)
class Members:
    """G groups and N members.

    groups: codes of the groups' attributes, then of the sizes, (G, attributes + 1).
    slots: each member's slot in the population, (N,); empty for a population in parts.
    group_of: the row of each member's group, (N,).
    roles: codes of roles, (N,); None without declared roles.
    """

    groups: NDArray[np.uint16]
    slots: NDArray[np.int64]
    group_of: NDArray[np.int64]
    roles: NDArray[np.uint16] | None = None

    def people(self, symbols: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.integer]:
        """The members' codes, (N, columns): the role, if declared, then the attributes.

        symbols: by attribute, a code for every slot of the population.
        """
        return self.with_roles(np.stack([codes[self.slots] for codes in symbols], axis=1))

    def with_roles(self, codes: NDArray[np.integer]) -> NDArray[np.integer]:
        """Puts the codes of roles, if declared, before members' codes, (N, attributes)."""
        return codes if self.roles is None else np.column_stack([self.roles, codes])


@dataclass(frozen=True)
class Roster:
    """G groups and N members.

    attributes: the groups' values by name, as text, (G,) each.
    persons: the members' ids, (N,).
    group_of: the row of each member's group, (N,), in increasing order.
    roles: as text, (N,); None without declared roles.
    """

    name: ClassVar = "groups"
    attributes: dict[str, list[str]]
    persons: list[str]
    group_of: NDArray[np.int64]
    roles: list[str] | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of all fields, in hexadecimal."""
        fields: list[object] = [
            self.attributes,
            self.persons,
            self.group_of.astype("<i8").tobytes(),
        ]
        if self.roles is not None:
            fields.append(self.roles)
        return hashlib.sha256(msgspec.msgpack.encode(fields)).hexdigest()

    def check(self, study: Study) -> None:
        """Raises UserError unless the table fits the study's declaration."""
        self.codes(study)
        normal_ids = {*study.id_rule.normals(self.persons)}
        if "" in normal_ids:
            raise UserError(
                "groups: by the rule of study.ids, there are members without an id; send another"
                " table"
            )
        if duplicates := len(self.persons) - len(normal_ids):
            raise UserError(
                f"groups: by the rule of study.ids, {duplicates} members are somebody who is"
                " there already; send another table"
            )
        if study.size is not None and len(self.persons) > study.size:
            raise UserError("groups: more members than study.population.size; send another table")

    def message_parts(self) -> list[tuple[str, bytes]]:
        """Names and contents of the parts of the table's message."""
        columns: dict[str, object] = {"person": self.persons, "group": self.group_of}
        if self.roles is not None:
            columns["role"] = pa.array(self.roles, pa.string())
        attributes = {name: pa.array(v, pa.string()) for name, v in self.attributes.items()}
        return [
            *split_part("groups", ipc_stream(pa.table(attributes))),
            *split_part("members", ipc_stream(pa.table(columns))),
        ]

    @classmethod
    def of_tables(cls, table: Callable[[str], pa.Table]) -> Roster:
        """The table of groups from the tables of `message_parts`. table: reads a table by name."""
        attributes, members = table("groups"), table("members")
        return cls(
            attributes={name: attributes[name].to_pylist() for name in attributes.column_names},
            persons=members["person"].to_pylist(),
            group_of=members["group"].to_numpy(),
            roles=members["role"].to_pylist() if "role" in members.column_names else None,
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of members of every group, (G,)."""
        return np.bincount(self.group_of)

    def codes(self, study: Study) -> NDArray[np.uint16]:
        """Codes of attributes, then of sizes (less one), (G, attributes + 1). Raises UserError."""
        from stream_dp.batch.data.domain import Column  # only studies with groups need it

        assert study.groups is not None
        columns, lines = [], []
        for name, declared in study.groups.attributes.items():
            codes = Column(name, declared.symbols).codes(pa.array(self.attributes.get(name, [])))
            if len(codes) < len(self.sizes) or (codes < 0).any():
                lines.append(f"groups: '{name}' is not as the study file declares it; send again")
            columns.append(codes)
        if self.sizes.max() > study.groups.most:
            lines.append(f"groups: one has more than {study.groups.most} members; send again")
        if lines:
            raise UserError(lines)
        return np.stack([*columns, self.sizes - 1], axis=1).astype(np.uint16)

    def role_codes(self, study: Study) -> NDArray[np.uint16] | None:
        """Codes of the roles, (N,); None without declared roles. Raises UserError."""
        assert study.groups is not None
        declared = study.groups.roles
        if (declared is None) != (self.roles is None):
            raise UserError("groups: roles are not as the study file declares them; send again")
        if declared is None:
            return None
        roles = pa.array(self.roles, pa.string())
        codes, faults = coded_roles(study.groups, roles, self.group_of, len(self.sizes))
        if faults:
            raise UserError(f"groups: {line}; send again" for line in faults)
        return codes


def coded_roles(
    groups: Groups, roles: pa.Array, group_of: NDArray[np.int64], number: int
) -> tuple[NDArray[np.uint16], list[str]]:
    """Codes of members' roles, and lines about faults with counts and without ids.

    roles: as text, (N,).
    group_of: the row of each member's group, (N,).
    number: the number of groups.
    """
    from stream_dp.batch.data.domain import role_faults
    from stream_dp.batch.synthesizer import roles_domain

    domain = roles_domain(groups)
    (column,) = domain.person
    codes = column.codes(roles)
    if unknown := int((codes < 0).sum()):
        return codes.astype(np.uint16), [
            f"{unknown} rows with an undeclared or empty '{column.name}'"
        ]
    lines = [
        f"{len(faulty_groups)} groups with {fault}"
        for fault, faulty_groups in role_faults(domain, codes[:, None], group_of, number)
    ]
    return codes.astype(np.uint16), lines


@dataclass(frozen=True)
class PlacesTable:
    """P places in R smallest regions.

    columns: the names of the levels of regions, from the top down.
    regions: the path of each smallest region, in increasing order.
    place_counts: the number of places in each region, int64 (R,).
    keys: the keys of the places, in increasing order, (P,); None with a table of counts.
    region_of: the region of each place, int64 (P,), beside `keys`.
    counts: the table of counts (region, size, places), int64 (n, 3), or None. Confidential.
    """

    name: ClassVar = "places"
    columns: tuple[str, ...]
    regions: tuple[tuple[str, ...], ...]
    place_counts: NDArray[np.int64]
    keys: tuple[str, ...] | None = None
    region_of: NDArray[np.int64] | None = None
    counts: NDArray[np.int64] | None = None

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all fields, in hexadecimal."""
        arrays = (self.place_counts, self.region_of, self.counts)
        packed = [None if a is None else a.astype("<i8").tobytes() for a in arrays]
        fields = [self.columns, self.regions, self.keys, *packed]
        return hashlib.sha256(msgspec.msgpack.encode(fields)).hexdigest()

    def message_parts(self) -> list[tuple[str, bytes]]:
        """Names and contents of the parts of the table's message."""
        paths = map(list, zip(*self.regions, strict=True))
        regions = dict(zip(self.columns, paths, strict=True))
        tables = {"regions": pa.table({**regions, "places": self.place_counts})}
        if self.keys is not None:
            tables["places"] = pa.table({"place": list(self.keys), "region": self.region_of})
        if self.counts is not None:
            names = ("region", "size", "groups")
            tables["counts"] = pa.table(dict(zip(names, self.counts.T, strict=True)))
        return list(chain(*(split_part(name, ipc_stream(rows)) for name, rows in tables.items())))

    @classmethod
    def of_tables(cls, table: Callable[[str], pa.Table]) -> PlacesTable:
        """The table of places from the tables of `message_parts`. table: reads a table by name."""
        regions, place_rows, counts = (table(name) for name in ("regions", "places", "counts"))
        columns = tuple(regions.column_names[:-1])
        return cls(
            columns,
            tuple(zip(*(regions[name].to_pylist() for name in columns), strict=True)),
            regions["places"].to_numpy(),
            None if place_rows is None else tuple(place_rows["place"].to_pylist()),
            None if place_rows is None else place_rows["region"].to_numpy(),
            None if counts is None else np.stack([c.to_numpy() for c in counts.columns], axis=1),
        )

    def of_study(self, study: Study) -> Study:
        """The study with the keys of the places as values of place attributes. Raises UserError."""
        self.check(study)
        return study if self.keys is None else study.of_places(self.keys)

    def check(self, study: Study) -> None:
        """Raises UserError unless the table fits the study's declaration."""
        declared = study.places
        if (
            declared is None
            or declared.regions != self.columns
            or bool(declared.counted) != (self.counts is not None)
        ):
            raise UserError("places: the table is not as the study declares it; send it again")

    def sizes(self, codes: NDArray[np.unsignedinteger] | None, largest: int) -> pa.Table:
        """Counts the places of every smallest region by size. Confidential.

        codes: every person's place, `P` for nowhere; None with a table of counts.
        largest: the cap of sizes.
        """
        if codes is None:
            return self.sizes_of(None, largest)
        assert self.keys is not None
        people = np.bincount(codes, minlength=len(self.keys) + 1)[: len(self.keys)]
        return self.sizes_of(people, largest)

    def sizes_of(self, people: NDArray[np.int64] | None, largest: int) -> pa.Table:
        """Counts the places of every smallest region by size, from the people in every place.

        people: the number of people by place, (P,); None with a table of counts.

        Returns columns of the regions, `size` and `groups`, in increasing order, with a row of no
        groups for a region without places. The result has neither ids nor keys.
        """
        if people is None:
            assert self.counts is not None
            region, size, groups = self.counts.T
        else:
            assert self.region_of is not None
            size, region, groups = people, self.region_of, np.ones(len(people), np.int64)
        region = np.concatenate([region, np.arange(len(self.regions))])
        size = np.concatenate([np.minimum(size, largest), np.zeros(len(self.regions), np.int64)])
        groups = np.concatenate([groups, np.zeros(len(self.regions), np.int64)])
        runs, run_of = np.unique(region * (largest + 1) + size, return_inverse=True)
        total = np.zeros(len(runs), np.int64)
        np.add.at(total, run_of, groups)
        region, size = np.divmod(runs, largest + 1)
        is_kept = (total > 0) | ((self.place_counts[region] == 0) & (size == 0))
        paths = np.array(self.regions, object).reshape(len(self.regions), len(self.columns))
        columns = {
            name: pa.array(paths[region[is_kept], i], pa.string())
            for i, name in enumerate(self.columns)
        }
        return pa.table({**columns, "size": size[is_kept], "groups": total[is_kept]})


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
