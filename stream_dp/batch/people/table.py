"""People as a table of codes, and how the tables of two neighbouring inputs differ.

A row is a person; people who are absent are no rows. The relation says what one person changes:
under `add_remove` a row comes or goes; under `replace_one` and `replace_in_place` a row is replaced
by any other. Where a person may be absent, a row may come or go under those as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from stream_dp.errors import UserError
from stream_dp.study import Attribute, PeopleRelease, Study
from stream_dp.study.alphabet import ABSENT

from ..data.domain import Codes, Column, compact_codes

MOST_CELLS = 1 << 20  # of the marginal of a pair of columns


@dataclass(frozen=True)
class PeopleDomain:
    """The declared columns of people, and what one person may change.

    columns: their attributes.
    moves: whether one person's row may come or go.
    replaced: whether one person's row may be replaced by any other.
    size: the number of rows; None where it is private. Where rows come or go, it is.
    Raises UserError for columns that cannot be fitted.
    """

    columns: tuple[Column, ...]
    moves: bool
    replaced: bool
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.size is None) != self.moves or not (self.moves or self.replaced):
            raise ValueError("the number of rows is private where rows come or go, and only there")
        names = [c.name for c in self.columns]
        lines = [f"column '{n}': declared twice" for n in sorted(set(names)) if names.count(n) > 1]
        if len(self.columns) < 2:
            lines.append("people: declare at least two attributes; one alone needs no synthesizer")
        lines += [f"column '{c.name}': one value alone" for c in self.columns if len(c.values) < 2]
        first, second = sorted(self.sizes)[-2:] if len(names) > 1 else (1, 1)
        if first * second > MOST_CELLS:
            lines.append(
                f"people: the two largest columns have {first * second:,} cells together;"
                f" at most {MOST_CELLS:,}"
            )
        if lines:
            raise UserError(lines)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(len(c.values) for c in self.columns)

    def cells(self, columns: tuple[int, ...]) -> int:
        """How many cells the marginal of some columns has."""
        return prod(self.sizes[c] for c in columns)


def declared_people(
    release: PeopleRelease,
    attributes: Mapping[str, Attribute],
    *,
    neighbours: str,
    size: int | None,
) -> PeopleDomain:
    """The columns of a release of people, and what one person may change.

    attributes: of the study, by name.
    neighbours: the study's relation.
    size: its declared number of people, None where that is private.
    Raises UserError.
    """
    declared = [attributes[name] for name in release.attributes]
    columns = zip(release.attributes, declared, strict=True)
    moves = neighbours == "add_remove" or all(ABSENT in a.symbols for a in declared)
    return PeopleDomain(
        columns=tuple(Column(name, a.symbols) for name, a in columns),
        moves=moves,
        replaced=neighbours != "add_remove",
        size=None if moves else size,
    )


def study_people(study: Study, release: PeopleRelease) -> PeopleDomain:
    """The columns of a study's release of people. Raises UserError."""
    return declared_people(release, study.attributes, neighbours=study.neighbours, size=study.size)


def present_rows(study: Study, release: PeopleRelease, symbols: Mapping[str, Codes]) -> Codes:
    """(N, columns) codes of those who are present; symbols: by attribute, of everybody.

    Who is absent in every column is no row. Confidential.
    """
    codes = np.stack([symbols[name] for name in release.attributes], axis=1)
    here = np.zeros(len(codes), np.bool_)
    for column, name in enumerate(release.attributes):
        declared = study.attributes[name].symbols
        absent = declared.index(ABSENT) if ABSENT in declared else -1
        here |= codes[:, column] != absent
    return codes[here]


@dataclass(frozen=True, eq=False)
class People:
    """N people. Confidential, unless it is synthetic.

    codes: (N, columns), of any integer type; stored as 8 or 16 bits.
    Raises ValueError for codes outside their columns, or another number of rows than is public.
    """

    domain: PeopleDomain
    codes: Codes

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", compact_codes(self.codes, self.domain.sizes))
        if self.domain.size not in {None, self.N}:
            raise ValueError("the number of rows is not the public one")

    @property
    def N(self) -> int:
        return int(np.asarray(self.codes).shape[0])
