"""People as a table of codes, and how the tables of two neighbouring inputs differ.

A row is a person; people who are absent are no rows. The relation says what one person changes:
under `add_remove` a row comes or goes; under `replace_one` and `replace_in_place` a row is replaced
by any other. Where a person may be absent, a row may come or go under those as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from stream_dp.errors import UserError
from stream_dp.study import Attribute, PeopleRelease, Study
from stream_dp.study.families import Kind
from stream_dp.study.field_types import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.table_releases import MOST_CELLS, size_faults

from ..data.domain import Codes, Column, compact_codes
from .structural_zeros import NO_ZEROS, StructuralZeros, declared_zeros, require_blocks


@dataclass(frozen=True)
class PeopleDomain:
    """The declared columns of people, and the changes by a single person.

    columns: their attributes.
    moves: whether one person's row may come or go.
    replaced: whether one person's row may be replaced by any other.
    size: the number of rows; None where it is private. Where rows come or go, it is.
    numbers: by column that is a number, its numbers; the column's values are their bins.
    most: cells of the two largest columns together, at most.
    zeros: the cells that structural rules leave possible in synthetic rows; real rows may break
        them.
    Raises UserError for columns that cannot be fitted.
    """

    columns: tuple[Column, ...]
    moves: bool
    replaced: bool
    size: int | None = None
    numbers: Mapping[int, Numbers] = field(default_factory=dict)
    most: int = MOST_CELLS
    zeros: StructuralZeros = NO_ZEROS

    def __post_init__(self) -> None:
        if (self.size is None) != self.moves or not (self.moves or self.replaced):
            raise ValueError("the number of rows is private where rows come or go, and only there")
        names = [c.name for c in self.columns]
        lines = [f"column '{n}': declared twice" for n in sorted(set(names)) if names.count(n) > 1]
        if len(self.columns) < 2:
            lines.append("people: declare at least two attributes; one alone needs no synthesizer")
        lines += size_faults([(c.name, len(c.values)) for c in self.columns], self.most)
        if lines:
            raise UserError(lines)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(len(c.values) for c in self.columns)

    def cells(self, columns: tuple[int, ...]) -> int:
        """The number of cells of a marginal."""
        return prod(self.sizes[c] for c in columns)


def declared_people(
    release: PeopleRelease,
    attributes: Mapping[str, Attribute],
    *,
    neighbours: str,
    size: int | None,
) -> PeopleDomain:
    """The columns of a release of people, and the changes by a single person.

    attributes: of the study, by name.
    neighbours: the study's relation.
    size: its declared number of people, None where that is private.
    Raises UserError.
    """
    declared = [attributes[answer.attribute] for answer in release.answers]
    numbers = {c: a.numbers for c, a in enumerate(declared) if a.numbers is not None}
    values = [tuple(a.symbols) if a.numbers is None else a.numbers.bin_labels for a in declared]
    columns = tuple(map(Column, release.names, values))
    moves = neighbours == "add_remove" or all(ABSENT in a.codes for a in declared)
    zeros = declared_zeros(release.column_rules, columns, numbers)
    if release.kind != Kind.TABLE:
        require_blocks(zeros, columns)
    return PeopleDomain(
        columns=columns,
        moves=moves,
        replaced=neighbours != "add_remove",
        size=None if moves else size,
        numbers=numbers,
        zeros=zeros,
    )


def study_people(study: Study, release: PeopleRelease) -> PeopleDomain:
    """The columns of a study's release of people. Raises UserError."""
    return declared_people(release, study.attributes, neighbours=study.neighbours, size=study.size)


def present_rows(study: Study, release: PeopleRelease, symbols: Mapping[str, Codes]) -> Codes:
    """(N, columns) codes of people who are present. symbols: by column, of everybody.

    Who is absent in every column is no row. Confidential.
    """
    codes = np.stack([symbols[name] for name in release.names], axis=1)
    present = np.zeros(len(codes), np.bool_)
    for column, answer in enumerate(release.answers):
        present |= codes[:, column] != study.attributes[answer.attribute].codes.get(ABSENT, -1)
    return codes[present]


@dataclass(frozen=True, eq=False)
class People:
    """N people. Confidential, unless it is synthetic.

    codes: (N, columns), of any integer type; stored as 8 or 16 bits. Of a number, its bin.
    numbers: by column that is a number, (N,) the codes of the numbers themselves.
    Raises ValueError for codes outside their columns, or another number of rows than is public.
    """

    domain: PeopleDomain
    codes: Codes
    numbers: Mapping[int, Codes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", compact_codes(self.codes, self.domain.sizes))
        if self.domain.size not in {None, self.N}:
            raise ValueError("the number of rows is not the public one")

    @property
    def N(self) -> int:
        return int(np.asarray(self.codes).shape[0])

    @staticmethod
    def of_answers(domain: PeopleDomain, answers: Codes) -> People:
        """People from the codes of their answers, (N, columns). Raises ValueError."""
        codes, numbers = answers.astype(np.int64), dict[int, Codes]()
        for column, declared in domain.numbers.items():
            numbers[column] = points = codes[:, column].copy()
            if len(points) and not 0 <= points.min() <= points.max() < len(declared):
                raise ValueError("a code lies outside its numbers")
            codes[:, column] = np.searchsorted(declared.starts, points, side="right") - 1
        return People(domain, codes, numbers)

    @property
    def answers(self) -> Codes:
        """(N, columns) the codes of their answers."""
        answers = self.codes.astype(np.int64)
        for column, numbers in self.numbers.items():
            answers[:, column] = numbers
        return answers
