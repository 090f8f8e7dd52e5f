"""The measured columns: the table's columns, with composites in place of their sources.

Everything here is declared. A composite's values are the pairs of its columns' values, in their
order; a person's row in the table and among the measured columns say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import MatchRelease

from ...data.domain import Codes, Column
from ..model.people_draw import drawn_people
from ..people_table import People, PeopleDomain

_MOST = 1 << 32  # cells of a pair of columns: single ones alone are measured before it is merged
JOINT = "&"  # between the values of a composite; no value holds it


@dataclass(frozen=True, eq=False)
class Encoding:
    """The measured columns, and their sources in the table.

    source: the table's columns.
    names: of the measured columns.
    parts: by measured column, the table's columns in it.
    coarse: by number among the table's columns, the bins' numbers of a coarser bin.
    """

    source: PeopleDomain
    names: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    coarse: dict[int, NDArray[np.int64]]

    @staticmethod
    def of(source: PeopleDomain, release: MatchRelease) -> Encoding:
        """source: the columns of the release, in its order."""
        column_of = {name: column for column, name in enumerate(release.names)}
        columns = release.columns
        coarse = {
            column_of[name]: np.array(source.numbers[column_of[name]].coarser(edges), np.int64)
            for name, edges in (release.coarser or {}).items()
        }
        return Encoding(
            source=source,
            names=tuple(columns),
            parts=tuple(tuple(column_of[name] for name in sources) for sources in columns.values()),
            coarse=coarse,
        )

    @cached_property
    def domain(self) -> PeopleDomain:
        """The measured columns."""
        return PeopleDomain(
            columns=tuple(map(self._column, self.names, self.parts)),
            moves=self.source.moves,
            replaced=self.source.replaced,
            size=self.source.size,
            most=_MOST,
        )

    def _column(self, name: str, sources: tuple[int, ...]) -> Column:
        values = [self.source.columns[c].values for c in sources]
        if len(sources) == 1:
            return Column(name, values[0])
        return Column(name, tuple(JOINT.join(map(str, cell)) for cell in product(*values)))

    def _sizes(self, sources: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.source.sizes[c] for c in sources)

    def public_groups(self, column: int) -> NDArray[np.int64]:
        """(values,) the group of every value of a measured column, from 0, by coarser bins.

        Values whose sources fall in the same declared coarser bins are one group. Without coarser
        bins each value is a group of its own.
        """
        groups = np.zeros(1, np.int64)
        # A group's number has a digit for each source: the number of the source's coarser bin.
        for c in self.parts[column]:
            coarse = self.coarse.get(c, np.arange(self.source.sizes[c]))
            groups = (groups[:, None] * (int(coarse.max()) + 1) + coarse).reshape(-1)
        return groups

    def coded(self, people: People) -> People:
        """People by their measured columns. Confidential where they are."""
        columns = []
        for sources in self.parts:
            codes = tuple(people.codes[:, c].astype(np.int64) for c in sources)
            columns.append(np.ravel_multi_index(codes, self._sizes(sources)))
        return People(self.domain, np.stack(columns, axis=1))

    def decoded(self, codes: Codes, rng: np.random.Generator) -> People:
        """People of the table from (N, measured columns) codes; numbers uniform on their bins."""
        columns = np.empty((len(codes), len(self.source.sizes)), np.int64)
        for measured, sources in enumerate(self.parts):
            values = np.unravel_index(codes[:, measured], self._sizes(sources))
            columns[:, sources] = np.stack(values, axis=1)
        return drawn_people(rng, self.source, columns)
