"""The panel of a table of reports, which an evaluation takes for the truth."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.log.log import Stored
from stream_dp.population.cells import REASONS
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.tables import TableLayout
from stream_dp.study import Study

from .group_tables import Members, Roster
from .sending import encoded_reports


def true_panel(
    study: Study, path: Path, layout: TableLayout
) -> dict[str, NDArray[np.unsignedinteger]]:
    """The symbols of a table of reports by attribute, as arrays of (people, periods).

    The reports are decoded and the missing rules applied as in a releaser. People who enter late
    under add_remove have the missing rule's symbol before.

    Raises UserError where no value fits the study.
    """
    return _closed_panel(study, path, layout, ())[0]


def true_panel_and_members(
    study: Study, path: Path, layout: TableLayout, groups: Roster
) -> tuple[dict[str, NDArray[np.unsignedinteger]], Members]:
    """The panel with the members of groups, who are enrolled before everybody else.

    Raises UserError where no value fits the study or a member has no report.
    """
    panel, slots = _closed_panel(study, path, layout, groups.persons)
    return panel, Members(groups.codes(study), slots, groups.group_of, groups.role_codes(study))


def _closed_panel(
    study: Study, path: Path, layout: TableLayout, members: Sequence[str]
) -> tuple[dict[str, NDArray[np.unsignedinteger]], NDArray[np.int64]]:
    """The panel, and the rows of its members."""
    decoder, population = Decoder(study, bytes(32)), Population(study)
    ids = decoder.ids(members)
    hashes, silent = decoder.hashes(ids), set(ids)
    population.enrol(hashes[:, 0], hashes[:, 1])
    offset = 0
    for batch in encoded_reports(path, study, layout):
        records = [
            Stored(partition=0, offset=offset + i, time=0, key=None, value=value, headers=())
            for i, (_, value) in enumerate(batch)
        ]
        population.fold(*decoder.decode(records, 0))
        silent.difference_update(person for person, _ in batch)
        offset += len(batch)
    columns: dict[str, list[NDArray[np.unsignedinteger]]] = {name: [] for name in study.attributes}
    for _ in study.periods.labels:
        symbols = population.close().symbols
        for name, column in columns.items():
            column.append(symbols[name])
    if refused := population.accounting.rejected:
        texts = {str(reason): text for reason, text in REASONS.items()}
        reasons = ", ".join(f"{count} cells: {texts[r]}" for r, count in refused.items())
        print(f"stream-dp: {path}: left out: {reasons}", file=sys.stderr)
    if not population.accounting.accepted:
        raise UserError(f"{path}: no value of it fits the study")
    if silent:
        raise UserError(
            f"{path}: {len(silent)} of {len(members)} members of groups are not in it; the truth"
            " needs everybody's answers"
        )
    panel = {
        name: np.stack(
            [_filled(c, population.size, study.attributes[name].first_code) for c in closes], axis=1
        )
        for name, closes in columns.items()
    }
    return panel, population.slots(hashes[:, 0], hashes[:, 1])


def _filled(
    column: NDArray[np.unsignedinteger], size: int, code: int
) -> NDArray[np.unsignedinteger]:
    """The column, with `code` for people before their entry, `size` in all."""
    return np.append(column, np.full(size - column.shape[0], code, column.dtype))
