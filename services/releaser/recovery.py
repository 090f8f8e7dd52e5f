"""What a releaser finds when it starts: the population at the last cut, what is not published."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Log, OutOfRange
from stream_dp.log.message import read_messages
from stream_dp.population import Population
from stream_dp.population.reports import Decoder
from stream_dp.release.panels import TOPIC
from stream_dp.study import Study

from .. import journal
from ..groups.members import Members
from ..groups.roster import Roster, read_roster
from ..journal import Entry
from ..snapshots import Snapshots
from ..topics import REPORTS
from .facts import Facts
from .inputs import Inputs


def split_published(public: Log, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Entries that the public log holds, and those that it does not; what it holds is checked."""
    done = [m.hash for m in read_messages(public, TOPIC, "public log")]
    journal.check_public(entries, done)
    left = len(done)
    for place, entry in enumerate(entries):
        if left == 0:
            return list(entries[:place]), list(entries[place:])
        if left < len(entry.published):
            raise Inconsistent("public log: it ends in the middle of a period's releases")
        left -= len(entry.published)
    return list(entries), []


def bound_roster(log: Log, study: Study, bound: str | None) -> Roster | None:
    """The table of groups of a study that has batch releases.

    bound: the hash of the one that the journal was begun with; None before. Raises UserError
    where there is none, Inconsistent where it is another.
    """
    if not study.batches:
        return None
    table = read_roster(log)
    if table is None and bound is None:
        raise UserError(
            "groups: the study has batch releases, and no table of groups was sent: stream-dp"
            " groups STUDY.toml GROUPS.csv MEMBERS.csv"
        )
    if table is None or (bound is not None and table.hash != bound):
        raise Inconsistent(
            "groups: this is not the table that the journal was begun with; groups and who belongs"
            " to them stay as they are over the whole history: restore the confidential log"
        )
    table.codes(study)
    if study.ids is not None:
        again = len(table.persons) - len({study.ids.normal(person) for person in table.persons})
        if again:
            raise UserError(
                f"groups: by the rule of study.ids, {again} members are somebody who is there"
                " already; send another table"
            )
    if study.size is not None and len(table.persons) > study.size:
        raise UserError("groups: more members than study.population.size; send another table")
    return table


def recovered_inputs(
    study: Study,
    log: Log,
    snapshots: Snapshots,
    closes: Sequence[Entry],
    groups: Roster | None,
    facts: Facts,
    at: Callable[[str], None],
) -> tuple[Inputs, Members | None]:
    """The population at the last cut: from a snapshot, and the input after it replayed.

    closes: genesis and the entries that close a period.
    """
    last, decoder = closes[-1], Decoder(study, closes[0].key)
    hashes = None if groups is None else decoder.hashes(decoder.ids(groups.persons))
    start, population = _latest_snapshot(study, closes, snapshots)
    if start.number == 0 and hashes is not None:
        population.enrol(hashes[:, 0], hashes[:, 1])
    reader = Inputs(
        log,
        decoder,
        population,
        positions=start.cut,
        marks=last.marks,
        marked=last.marked,
        facts=facts,
        at=at,
    )
    first = log.describe(REPORTS).first
    if any(first[p] > position for p, position in start.cut.items()):
        raise Inconsistent(
            f"reports: no snapshot is left and the topic no longer reaches back to period"
            f" {start.number + 1}; restore a snapshot named in the journal"
        )
    for entry in closes[start.number + 1 :]:
        reader.fold_to(entry.cut, replay=True)
        population.close()
    try:
        log.read(REPORTS, reader.positions, 1, 0)
    except OutOfRange:
        raise Inconsistent(
            "reports: the topic ends before the last cut of the journal: an older confidential"
            " log was restored; bring back the newer one"
        ) from None
    facts.answer()
    accounting = population.accounting.as_dict()
    if last.number and accounting != last.accounting:
        raise Inconsistent(
            "reports: what is below the last cut is not what the journal counted; the topic"
            " was changed"
        )
    facts.count(0, accounting)
    if last.number:
        before = (closes[-2].accounting or {}).get("accepted", 0)
        facts.closed_accepted = accounting["accepted"] - before
    if groups is None or hashes is None:
        return reader, None
    slots = population.slots(hashes[:, 0], hashes[:, 1])
    if (slots < 0).any():
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return reader, Members(groups.codes(study), slots, groups.group_of, groups.role_codes(study))


def _latest_snapshot(
    study: Study, closes: Sequence[Entry], snapshots: Snapshots
) -> tuple[Entry, Population]:
    for entry in reversed(closes[1:]):
        data = snapshots.read(*entry.snapshot)
        if data is not None:
            return entry, Population.load(study, data)
    return closes[0], Population(study)
