"""The compressed domain: a column's values with low noisy counts become a single value.

A value, or a declared group of values such as a coarser bin, stays apart where its noisy count is
at least `threshold` standard deviations of its own noise; all others of the column become one.
Where structural rules tell values of a column apart, those of each class become one: values of a
class are possible with the same other values. All of it follows from noisy answers and
declarations, so it is public and costs nothing; a person's row becomes another row by itself, so
that neighbours stay neighbours.

The noisy count of m values of a column with n: the residual's entries y have independent noise of
variance s and an expectation that sums to 0, the number of people N noise of variance r (0 where it
is public). The best linear unbiased estimate times n^2 is the integer
    T = n sum of y over the m - m sum of y + m n N,   of variance n m (n - m) s + (m n)^2 r.

Undone, a value of a group is drawn in proportion to the noisy counts of its values, as far as they
are positive, or uniformly where none is.

`Encoding` has the measured columns: the table's columns, with composites in place of their sources.
All of it is declared. A composite's values are the pairs of its columns' values, in their
order; a person's row in the table and among the measured columns say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import MatchRelease

from ..data.domain import Codes, Column
from ..synthesizer import Known
from .people_draw import drawn_cells, drawn_people
from .people_table import People, PeopleDomain

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
            zeros=self.source.zeros.composed(self.parts, self.source.sizes),
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

        Values whose sources fall in the same declared coarser bins are one group, as far as they
        are of the same class (`classes`). Without coarser bins each value is a group of its own.
        """
        groups = np.zeros(1, np.int64)
        # A group's number has a digit for each source: the number of the source's coarser bin.
        for c in self.parts[column]:
            coarse = self.coarse.get(c, np.arange(self.source.sizes[c]))
            groups = (groups[:, None] * (int(coarse.max()) + 1) + coarse).reshape(-1)
        if not self.source.zeros.possible:
            return groups
        classes = self.classes(column)
        _, groups = np.unique(groups * (int(classes.max()) + 1) + classes, return_inverse=True)
        return np.asarray(groups, np.int64).reshape(-1)

    def classes(self, column: int) -> NDArray[np.int64]:
        """(values,) the class of every value of a measured column by structural rules."""
        return self.domain.zeros.classes(column, self.domain.sizes[column])

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


MOST_APART = 1_000  # values of a column that stay apart
REST = "?"  # the value that stands for merged ones, then ?2 and so on; no declared value holds it
SEVERAL = "|"  # between the values of a coarser bin


@dataclass(frozen=True, eq=False)
class NoisyColumn:
    """The noisy answers of the first phase about a column.

    entries: (n,) noisy residual, integers.
    variance: of the noise in an entry.
    people, people_variance: the number of people and the variance of its noise.
    """

    entries: NDArray[np.int64]
    variance: Fraction
    people: int
    people_variance: Fraction

    def scaled(self, values: Sequence[int]) -> int:
        """The noisy count of some values, times n squared."""
        n, m = len(self.entries), len(values)
        total = sum(self._list[v] for v in values)
        return n * total - m * self._sum + m * n * self.people

    def scaled_variance(self, m: int) -> Fraction:
        n = len(self.entries)
        return n * m * (n - m) * self.variance + (m * n) ** 2 * self.people_variance

    @cached_property
    def _list(self) -> list[int]:
        values: list[int] = self.entries.tolist()
        return values

    @cached_property
    def _sum(self) -> int:
        return sum(self._list)

    def counts(self) -> NDArray[np.float64]:
        """(n,) noisy counts, which sum to the number of people."""
        n = len(self.entries)
        counts: NDArray[np.float64] = (self.entries - self.entries.mean() + self.people) / n
        return counts


@dataclass(frozen=True, eq=False)
class MergedColumn:
    """The groups of a column's values in the compressed domain.

    groups: by group, the codes of its values.
    rests: the number of the last groups that are of merged values; without rules 1 at most.
    noisy: what the groups follow from.
    """

    groups: tuple[tuple[int, ...], ...]
    rests: int
    noisy: NoisyColumn

    @staticmethod
    def of(
        noisy: NoisyColumn,
        public: NDArray[np.int64],
        threshold: Fraction,
        exempt: bool,
        classes: NDArray[np.int64] | None = None,
    ) -> MergedColumn:
        """A declared group stays apart if its noisy T >= threshold * sqrt(variance of T).

        Of these the MOST_APART with the largest T stay, and the largest group always; all others
        of a class are merged.

        public: (n,) the declared groups, each within a class.
        exempt: every T counts as large enough.
        classes: (n,) the class of each value by structural rules; by default one for all.
        """
        order = np.argsort(public, kind="stable")
        starts = np.flatnonzero(np.diff(public[order], prepend=-1))
        declared = [tuple(g.tolist()) for g in np.split(order, starts[1:])]
        scaled = [noisy.scaled(group) for group in declared]
        threshold_of = {m: threshold**2 * noisy.scaled_variance(m) for m in set(map(len, declared))}
        is_high = [
            exempt or (count >= 0 and count**2 >= threshold_of[len(group)])
            for count, group in zip(scaled, declared, strict=True)
        ]
        by_count = sorted(range(len(declared)), key=lambda i: (-scaled[i], i))
        separate = {by_count[0], *[i for i in by_count if is_high[i]][:MOST_APART]}
        low = dict[int, list[int]]()
        for i in sorted({*range(len(declared))} - separate):
            low.setdefault(0 if classes is None else int(classes[declared[i][0]]), []).append(i)
        alone = {i for rest in low.values() if len(rest) == 1 for i in rest}
        groups = [declared[i] for i in sorted(separate | alone)]
        rests = [rest for _, rest in sorted(low.items()) if len(rest) > 1]
        groups += [tuple(sorted(v for i in rest for v in declared[i])) for rest in rests]
        return MergedColumn(tuple(groups), len(rests), noisy)

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """(n,) the group of every value."""
        result = np.empty(len(self.noisy.entries), np.int64)
        for number, values in enumerate(self.groups):
            result[list(values)] = number
        return result

    @property
    def identity(self) -> bool:
        """Whether every value stays apart."""
        return len(self.groups) == len(self.noisy.entries)

    @property
    def merged(self) -> int:
        """How many values were merged for their low counts."""
        return sum(map(len, self.groups[len(self.groups) - self.rests :]))

    def column(self, source: Column) -> Column:
        """The column of groups: a value alone, the values of a coarser bin, or the rest."""
        names: list[int | str] = []
        for values in self.groups:
            single = source.values[values[0]]
            several = SEVERAL.join(str(source.values[v]) for v in values)
            names.append(single if len(values) == 1 else several)
        for number in range(self.rests):
            names[len(names) - self.rests + number] = f"{REST}{number + 1 if number else ''}"
        return Column(source.name, tuple(names))

    def known(self, column: int) -> Known:
        """The interaction of the compressed column number `column`, from its groups' counts.

        The sum of m of a column's n centred cells has the variance m (1 - m / n) s / n^2, where s
        is that of an entry. One variance stands for all groups: the mean of these, divided by what
        centring leaves of independent noise, 1 - 1 / groups.
        """
        n, count = len(self.group_of), len(self.groups)
        sums = np.zeros(count)
        np.add.at(sums, self.group_of, self.noisy.counts())
        m = np.bincount(self.group_of, minlength=count)
        variances = m * (1 - m / n) * float(self.noisy.variance) / n**2
        variance = float(variances.mean()) / (1 - 1 / count)
        return Known((column,), sums - self.noisy.people / count, variance)

    def values(self, groups: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
        """(N,) values drawn for people of these groups."""
        result = np.empty(len(groups), np.int64)
        counts = np.maximum(self.noisy.counts(), 0)
        for number, values in enumerate(self.groups):
            people = np.flatnonzero(groups == number)
            likely = counts[list(values)]
            if likely.sum() <= 0:
                likely = np.ones(len(values))
            (drawn,) = drawn_cells(rng, likely[None, :], np.array([len(people)]))
            result[people] = np.array(values)[drawn]
        return result


@dataclass(frozen=True, eq=False)
class Compression:
    """From measured columns to their groups, and back.

    source: the measured columns.
    columns: of each, its groups.
    """

    source: PeopleDomain
    columns: tuple[MergedColumn, ...]

    @cached_property
    def domain(self) -> PeopleDomain:
        """The compressed domain."""
        columns = zip(self.columns, self.source.columns, strict=True)
        return PeopleDomain(
            columns=tuple(merged.column(source) for merged, source in columns),
            moves=self.source.moves,
            replaced=self.source.replaced,
            size=self.source.size,
            most=self.source.most,
            zeros=self.source.zeros.merged([column.group_of for column in self.columns]),
        )

    def merged(self, people: People) -> People:
        """People by the groups of their values. Confidential where they are."""
        codes = [merged.group_of[people.codes[:, c]] for c, merged in enumerate(self.columns)]
        return People(self.domain, np.stack(codes).T)  # counted column by column

    def undone(self, codes: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
        """(N, columns) values of the measured columns, drawn for people of these groups."""
        drawn = [merged.values(codes[:, c], rng) for c, merged in enumerate(self.columns)]
        return np.stack(drawn, axis=1)
