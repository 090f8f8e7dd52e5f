"""A panel that is known, for an evaluation: a table of reports, through decoder and population."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.log.base import Stored
from stream_dp.population import Population
from stream_dp.population.reports import REASONS, Decoder
from stream_dp.population.tables import TableLayout
from stream_dp.study import Study

from .groups.members import Members
from .groups.roster import Roster
from .reports import encoded_reports


def known_panel(study: Study, path: Path, how: TableLayout) -> dict[str, NDArray[np.uint8]]:
    """A known panel by attribute, (people, periods), the missing rules applied.

    The table goes through the decoder and the population, as reports do. People who enter late
    under add_remove have the missing rule's symbol before.
    """
    return _closed_panel(study, path, how, ())[0]


def known_panel_and_members(
    study: Study, path: Path, how: TableLayout, groups: Roster
) -> tuple[dict[str, NDArray[np.uint8]], Members]:
    """The same with the members of groups, who have a place before everybody else.

    Raises UserError where the table says nothing of a member.
    """
    panel, slots = _closed_panel(study, path, how, groups.persons)
    return panel, Members(groups.codes(study), slots, groups.group_of, groups.role_codes(study))


def _closed_panel(
    study: Study, path: Path, how: TableLayout, members: Sequence[str]
) -> tuple[dict[str, NDArray[np.uint8]], NDArray[np.int64]]:
    """The panel, and where its members are."""
    decoder, population = Decoder(study, bytes(32)), Population(study)
    ids = decoder.ids(members)
    hashes, unheard = decoder.hashes(ids), set(ids)
    population.enrol(hashes[:, 0], hashes[:, 1])
    offset = 0
    for batch in encoded_reports(path, study, how):
        records = [Stored(0, offset + i, 0, None, value, ()) for i, (_, value) in enumerate(batch)]
        population.fold(*decoder.decode(records, 0))
        unheard.difference_update(person for person, _ in batch)
        offset += len(batch)
    columns: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in study.attributes}
    for _ in study.periods.labels:
        for name, symbols in population.close().symbols.items():
            columns[name].append(symbols)
    if refused := dict(population.accounting.rejected):
        reasons = ", ".join(f"{count} cells: {REASONS[r]}" for r, count in refused.items())
        print(f"stream-dp: {path}: left out: {reasons}", file=sys.stderr)
    if not population.accounting.accepted:
        raise UserError(f"{path}: no value of it fits the study")
    if unheard:
        raise UserError(
            f"{path}: {len(unheard)} of {len(members)} members of groups are not in it; the truth"
            " needs everybody's answers"
        )
    panel = {
        name: np.stack(
            [_filled(c, population.size, study.attributes[name].first_code) for c in closes], axis=1
        )
        for name, closes in columns.items()
    }
    return panel, population.slots(hashes[:, 0], hashes[:, 1])


def _filled(column: NDArray[np.uint8], size: int, code: int) -> NDArray[np.uint8]:
    return np.append(column, np.full(size - column.shape[0], code, np.uint8))
