"""Recovery of the population at the last cut: from a snapshot, and the reports after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Log, OutOfRange, Positions
from stream_dp.population.accounting import CellCounts
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder, DecoderMaker
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..intake.markers import FoundMarkers
from ..storage.close_orders import newest_files, read_population
from ..storage.journal import Entry
from ..storage.log_guard import check_unread
from ..storage.snapshots import Snapshots
from .input_reading import Inputs
from .releaser_facts import Context, Facts

if TYPE_CHECKING:
    from ..intake.place_table import PlacesTable
    from ..intake.roster import Members, Roster


def recovered_inputs(
    study: Study,
    log: Log,
    snapshots: Snapshots,
    closes: Sequence[Entry],
    *,
    groups: Roster | PlacesTable | None,
    context: Context,
    decoder_of: DecoderMaker = Decoder,
) -> tuple[Inputs, Members | PlacesTable | None]:
    """The input with the population at the last cut, and the members of groups or the places.

    The population is read from the newest snapshot that exists, and the reports after it are
    replayed.

    closes: genesis and the entries that close a period.
    groups: the table of groups or of places, if the study declares one.
    decoder_of: makes the decoder from the study and the key of the hash of ids.

    Raises Inconsistent for other reports or snapshots than the journal's.
    """
    last = closes[-1]
    markers = FoundMarkers.at(study, last)
    places = cast("PlacesTable", groups) if study.places is not None else None
    roster = cast("Roster | None", groups) if places is None else None
    if places is not None:
        study = places.of_study(study)
    decoder = decoder_of(study, closes[0].key)
    hashes = None if roster is None else decoder.hashes(decoder.ids(roster.persons))
    start, population = _latest_snapshot(study, closes, snapshots)
    if start.number == 0 and hashes is not None:
        population.enrol(hashes[:, 0], hashes[:, 1])
    inputs = Inputs(
        log,
        decoder,
        population,
        markers=markers,
        positions=start.next_begin,
        context=context,
        snapshots=snapshots,
    )
    check_reach(log, closes, start)
    for entry in closes[start.number + 1 :]:
        inputs.replay_to(entry)
        inputs.positions = entry.next_begin
        population.close()
    decoder.go_on([entry.read_as for entry in closes])
    check_end(log, inputs.positions)
    context.facts.answer()
    accounting = population.accounting
    check_counted(last, accounting)
    count_closed(context.facts, closes, accounting)
    if roster is None or hashes is None:
        return inputs, places
    from ..intake.roster import Members  # only studies with groups need it

    slots = population.slots(hashes[:, 0], hashes[:, 1])
    if (slots < 0).any():
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return inputs, Members(roster.codes(study), slots, roster.group_of, roster.role_codes(study))


def count_closed(facts: Facts, closes: Sequence[Entry], accounting: CellCounts) -> None:
    """Sets the facts to the counts of the closed periods."""
    facts.count(0, accounting)
    if closes[-1].number:
        previous = closes[-2].input.accounting
        facts.closed_accepted = accounting.accepted - (previous.accepted if previous else 0)


def check_counted(entry: Entry, accounting: CellCounts) -> None:
    """Raises Inconsistent unless the input up to a close has the counts of its entry.

    entry: of the close; genesis has no counts.
    """
    if entry.number and accounting != entry.input.accounting:
        raise Inconsistent(
            "reports: what is below the last cut is not what the journal counted; the topic"
            " was changed"
        )


def check_reach(log: Log, closes: Sequence[Entry], start: Entry) -> None:
    """Raises Inconsistent if reports after a close are gone.

    start: the close from which the closes after it are repeated.
    """
    first, repeated = log.describe(REPORTS).first, closes[start.number + 1 :]
    elsewhere = any(e.reading is not None and e.reading.another for e in repeated)
    if elsewhere or any(first[p] > position for p, position in start.next_begin.items()):
        if repeated:
            raise Inconsistent(
                f"reports: no snapshot is left and the topic no longer reaches back to period"
                f" {start.number + 1}; restore a snapshot named in the journal"
            )
        check_unread(first, start.next_begin)


def check_end(log: Log, cut: Positions) -> None:
    """Raises Inconsistent if the topic ends before the last cut."""
    try:
        log.read(REPORTS, cut, 1, 0)
    except OutOfRange:
        raise Inconsistent(
            "reports: the topic ends before the last cut of the journal: an older confidential"
            " log was restored; bring back the newer one"
        ) from None


def _latest_snapshot(
    study: Study, closes: Sequence[Entry], snapshots: Snapshots
) -> tuple[Entry, Population]:
    """The newest close with a sound snapshot, and its population."""
    while (entry := newest_files(closes, snapshots)).number:
        population = read_population(study, snapshots, *entry.snapshot)
        if population is not None:
            return entry, population
        # A damaged file was set aside, or a file has gone: an older close, then.
    return closes[0], Population(study)
