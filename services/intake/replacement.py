"""Withdraws the cells of an earlier table that a new table lacks."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.population.report_judging import LONGEST_ID
from stream_dp.population.tables import SentRecords, TableLayout, id_rule, read_reports
from stream_dp.study import Study

_DIGEST = 16  # bytes of a cell's hash: two cells that share one do not occur


class CellSet:
    """The cells (person, period, attribute) of a table, 16 bytes each."""

    def __init__(self, study: Study) -> None:
        self._normal = id_rule(study)
        self._digests = bytearray()
        self._sorted: NDArray[Any] | None = None

    def add(self, person: str, period: str, attribute: str) -> None:
        self._digests += self._digest(person, period, attribute)

    def lacks(self, person: str, period: str, attribute: str) -> bool:
        """Whether a cell was never added. Call only after the last `add`."""
        if self._sorted is None:
            self._sorted = np.sort(np.frombuffer(self._digests, f"V{_DIGEST}").view(f"S{_DIGEST}"))
        digest = np.frombuffer(self._digest(person, period, attribute), f"S{_DIGEST}")
        index = int(np.searchsorted(self._sorted, digest)[0])
        return index == len(self._sorted) or bool(self._sorted[index] != digest[0])

    def _digest(self, person: str, period: str, attribute: str) -> bytes:
        # Lengths in front, so that no two cells have the same text.
        fields = (self._normal(person), period, attribute)
        text = "".join(f"{len(field)}:{field}" for field in fields)
        return blake2b(text.encode(), digest_size=_DIGEST).digest()


def cells_of_table(path: Path, study: Study, layout: TableLayout) -> CellSet:
    """The cells of a table. Raises UserError."""
    cells = CellSet(study)
    for batch in read_reports(path, study, layout):
        for person, period, values in batch:
            for attribute in values:
                cells.add(person, period, attribute)
    return cells


def encoded_withdrawals(
    path: Path, study: Study, layout: TableLayout, cells: CellSet, closed: int
) -> Iterator[SentRecords]:
    """Reports that clear the cells of an earlier table missing in `cells`.

    closed: the last closed period, of which nothing can be withdrawn.
    """
    encode = msgspec.json.encode
    normal, numbers = id_rule(study), study.periods.numbers
    for batch in read_reports(path, study, layout):
        reports = []
        for person, period, values in batch:
            if numbers.get(period, 0) <= closed or not 0 < len(normal(person)) <= LONGEST_ID:
                continue
            gone = {name: None for name in values if cells.lacks(person, period, name)}
            if gone:
                report = {"person": person, "period": period, "values": gone}
                reports.append((normal(person), encode(report)))
        yield SentRecords.of(reports)
