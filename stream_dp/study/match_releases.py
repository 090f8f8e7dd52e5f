"""Declarations of two-phase tables of people: single columns first, then marginals.

McKenna, Miklau, Sheldon 2021, "Winning the NIST Contest: a scalable and general approach to
differentially private synthetic data" (arXiv 2108.04978).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from .families import Kind
from .field_types import Declaration, Multiple, Name, Probability, Weight
from .table_releases import PeopleRelease

Edges = Annotated[tuple[Annotated[int, Field(strict=True)], ...], Field(min_length=1)]
Columns = Annotated[tuple[Name, ...], Field(min_length=1, max_length=3)]


class Marginal(Declaration):
    """A measured marginal of `match`, and the precision."""

    of: Columns
    """One to three columns. A single column is measured in any case: listing it gives it a
    weight."""
    weight: Weight = Fraction(1)
    """The marginal's weight relative to other marginals. The standard deviation of its noise is
    divided by the weight."""


# Told apart before either is read, so that a mistake in one is one line. The tags are no words of
# the file: they are left out of a fault's place.
ListedMarginal = Annotated[
    Annotated[Columns, Tag("word")] | Annotated[Marginal, Tag("table")],
    Discriminator(lambda item: "table" if isinstance(item, (Mapping, Marginal)) else "word"),
]


class MatchRelease(PeopleRelease):
    """A synthetic table of people, fitted in two phases, of listed values and of numbers."""

    kind: Literal[Kind.MATCH, Kind.TABLE]
    """The synthesizer."""
    one_ways: Probability = Fraction(1, 4)
    """The part of `rho` that measures single columns; the rest measures marginals of two and three
    columns. A 25th of this part counts people if their number is private. By default a quarter, or
    up to 60 % if the budget is small."""
    threshold: Multiple = Fraction(3)
    """A number of standard deviations of the noise. Values of a column with a noisy count below
    this threshold are merged into one value before marginals are measured."""
    exempt: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)] | None = None
    """Columns, or composites, whose values are never merged."""
    composites: Annotated[dict[Name, tuple[Name, Name]], Field(min_length=1)] | None = None
    """`[releases.composites]`: `place = ["city", "state"]` measures two columns as one column of
    pairs. The published table has both columns separately."""
    coarser: Annotated[dict[Name, Edges], Field(min_length=1)] | None = None
    """`[releases.coarser]`: for a number, some of the edges of its `bins`. Marginals of two and
    three columns use the bins between these edges. The number alone is measured in all its bins."""
    marginals: (
        Annotated[tuple[ListedMarginal, ...], Field(min_length=1, max_length=1000)] | None
    ) = None
    """The measured marginals, such as `["age", "income"]` or `{ of = ["age"], weight = 2 }`. By
    default all pairs, or the 300 pairs with the fewest cells if there are more. Triples of at most
    20,000 cells are added if the noise does not drown them. If the budget is small, pairs are
    selected in rounds instead. The default applies if no marginal has two columns or more."""

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """By measured column, the table's columns; a composite stands at its first column."""
        composites = self.composites or {}
        composite_of = {c: name for name, columns in composites.items() for c in columns}
        names = dict.fromkeys(composite_of.get(name, name) for name in self.names)
        return {name: composites.get(name, (name,)) for name in names}

    @property
    def chosen(self) -> bool:
        """Whether no marginal of two columns or more is declared."""
        return all(len(marginal.of) < 2 for marginal in self.listed_marginals)

    @property
    def listed_marginals(self) -> tuple[Marginal, ...]:
        """The listed marginals with their weights."""
        listed = self.marginals or ()
        return tuple(m if isinstance(m, Marginal) else Marginal(of=m) for m in listed)
