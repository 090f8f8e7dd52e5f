"""Declarations of data sets: synthetic tables, drawn anew when declared periods close."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator

from stream_dp.errors import UserError

from .column_rules import ColumnRule, Function, Implication, Order, read_column_rule
from .families import TABLE_FAMILIES, DataSetKind, DeclaredRelease, Kind, kinds_of
from .field_types import Declaration, Multiple, Name, Probability, Rho, Symbol, UnlessOff, Weight
from .periods import Periods, period_text
from .plugins import AS_IT_IS
from .structural_rules import Rule
from .thresholds import Linear

MOST_CELLS = 1 << 20  # of the marginal of a pair of columns
MOST_PAST = 64  # periods of a history
FIRST = Fraction(1, 5)  # of the rho of all fused tables: the first table's
# Of tables of people whose pairs are picked in rounds, whatever their kind.
LOCATED_TITLE = (
    "residuals of people's columns, rows with a location of each number (RAP++), annealed sigmoids"
)
PICKED_TITLE = "pairs of columns picked in rounds (AIM), residuals, a graphical model"


class History(Declaration):
    """An attribute of people in the last periods: a column per period."""

    of: str
    """The attribute. Its columns are named NAME_2_ago, NAME_1_ago and, for the closing period,
    NAME. Before a person's first answer the `missing` rule gives the value."""
    last: Annotated[int, Field(ge=2, le=MOST_PAST, strict=True)]
    """The number of periods, including the closing period. The service keeps every person's answers
    for this number of periods."""


# Told apart before either is read, so that a mistake in a history is one line.
Answered = Annotated[
    Annotated[str, Tag("name")] | Annotated[History, Tag("history")],
    Discriminator(lambda item: "name" if isinstance(item, str) else "history"),
]


class PastAnswer(NamedTuple):
    """The content of a column: an attribute's answer, `ago` periods before the close."""

    attribute: str
    ago: int

    @property
    def column(self) -> str:
        return f"{self.attribute}_{self.ago}_ago" if self.ago else self.attribute


class DataSetRelease(DeclaredRelease):
    """The keys of every release of a data set."""

    name: Name
    """The name of the release. No other release of the study has the same name."""
    kind: Kind
    """The synthesizer."""
    rho: Rho
    """The cost of each data set, charged at the close that begins the data set. If tables of people
    are combined over periods, the mean cost of a table (see `first`)."""
    every: Annotated[int, Field(ge=1, strict=True)] | None = None
    """The number of periods from one data set to the next. Declare either `every` or `at`."""
    at: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The periods whose closes begin a data set."""

    @field_validator("at", mode="before")
    @classmethod
    def _texts(cls, at: object) -> object:
        return tuple(map(period_text, at)) if isinstance(at, (list, tuple)) else at

    @property
    def data_set(self) -> DataSetKind:
        """The parts of the kind."""
        parts = self.kind.data_set
        assert parts is not None
        return parts

    @property
    def titles(self) -> tuple[str, ...]:
        """The mechanisms that a certificate of the release may name; noisy numbers may choose."""
        return (self.data_set.mechanism,)

    @property
    def fused(self) -> bool:
        """Whether each table of the release also uses the measurements of the tables before it."""
        return False

    @property
    def row_units(self) -> dict[str, str]:
        """The words for a row of its published tables, where the release declares them."""
        return {}

    @property
    def answers(self) -> tuple[PastAnswer, ...]:
        """The contents of the columns of people's answers, in order."""
        return ()

    @property
    def questions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(answer.attribute for answer in self.answers))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of people's answers."""
        return tuple(answer.column for answer in self.answers)

    @property
    def histories(self) -> tuple[History, ...]:
        """The attributes of people that have a column for each of the last periods."""
        return ()

    @property
    def derived_from(self) -> dict[str, str]:
        """The derived columns and their source columns."""
        return {}

    @property
    def needs_members(self) -> bool:
        """Whether a fit needs the table of who belongs to which group."""
        return False

    @property
    def structural_rules(self) -> tuple[Rule, ...]:
        """What the world rules out about the members of a group."""
        return ()

    @property
    def column_rules(self) -> tuple[ColumnRule, ...]:
        """What the world rules out about the columns of a row."""
        return ()

    def due(self, periods: Periods) -> list[int]:
        """The numbers of the periods at whose close a data set begins."""
        if self.at is not None:
            return [n for n, label in enumerate(periods.labels, 1) if label in self.at]
        return [*range(self.every or 1, periods.count + 1, self.every or 1)]

    def first_number(self, periods: Periods) -> int:
        return self.due(periods)[0]

    def costs(self, data_sets: int) -> tuple[Fraction, ...]:
        """The rho of every data set, in order; together `data_sets` times `rho`."""
        return (self.rho,) * data_sets

    @property
    def past(self) -> int:
        """The number of periods from the oldest answer to the close."""
        return max((answer.ago for answer in self.answers), default=0)


class TableRelease(DataSetRelease):
    """The keys of a release with people as the rows of a synthetic table."""

    attributes: Annotated[tuple[Answered, ...], Field(min_length=1, max_length=64)]
    """The attributes of people, from their reports. A person without an answer gets
    the symbol of the attribute's `missing` rule."""

    @cached_property
    def answers(self) -> tuple[PastAnswer, ...]:
        return tuple(
            PastAnswer(item, 0) if isinstance(item, str) else PastAnswer(item.of, ago)
            for item in self.attributes
            for ago in (range(1) if isinstance(item, str) else reversed(range(item.last)))
        )

    @property
    def histories(self) -> tuple[History, ...]:
        return tuple(item for item in self.attributes if not isinstance(item, str))


if TYPE_CHECKING:
    PeopleKind = Kind
    HouseholdsKind = Kind
    EventsKind = Kind
else:
    PeopleKind, HouseholdsKind, EventsKind = (
        Annotated[
            Literal[kinds_of(family)], Kind.field(lambda k, own=family: k.family is own), AS_IT_IS
        ]
        for family in TABLE_FAMILIES
    )


class Derived(Declaration):
    """A column as a public function of a fitted column; free of charge."""

    of: Name
    """The column from which the derived column follows: one of the release's attributes with listed
    values."""
    values: dict[str, Symbol]
    """The derived value for each value of the other column, including `absent` if people may be
    absent."""

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The distinct values."""
        return tuple(dict.fromkeys(self.values.values()))

    def codes(self, symbols: Sequence[Symbol]) -> tuple[int, ...]:
        """The code of the derived value per symbol of the fitted column."""
        return tuple(self.symbols.index(self.values[str(symbol)]) for symbol in symbols)


def rule_text(read: Callable[[str], object]) -> AfterValidator:
    """Checks that a text is a structural rule. read: the parser, which raises UserError."""

    def check(text: str) -> str:
        try:
            read(text)
        except UserError as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


# None for no rules: an empty list and a missing key are the same declaration.
NoneIfEmpty = BeforeValidator(lambda texts: texts or None)
RuleText = Annotated[str, Field(strict=True, max_length=1000)]


class PeopleRelease(TableRelease):
    """A synthetic table of people, drawn anew when declared periods close."""

    kind: PeopleKind
    """The synthesizer: `mixture` of listed values, `table` and `rap` of numbers as well."""
    attributes: Annotated[tuple[Answered, ...], Field(min_length=1, max_length=256)]
    """The columns: attributes of people, from their reports, or histories of one, such as `{ of =
    "poverty", last = 12 }`. A person without an answer gets the symbol of the attribute's `missing`
    rule. A person who is `absent` in every column does not appear in the table."""
    labels: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)] | None = None
    """Only for `table` and `rap`: columns of listed values that analysts want to predict from other
    columns. Pairs with a label are measured more precisely than other pairs. Where `table` selects
    pairs in rounds, a pair with a label counts four times. For `rap` without declared `rounds` only
    pairs with a label are selected, and later phases measure only sets of columns with a label."""
    linear: Annotated[tuple[Linear, ...], Field(min_length=1, max_length=64)] | None = None
    """Only for `rap`: sums of numbers with whole weights, whose thresholds are measured, also
    within each of the `labels`: `{ weights = { income = 1, rent = -12 }, thresholds = [0] }`, or `{
    random = 8, seed = 1 }`."""
    rounds: Annotated[int, Field(ge=0, le=1000, strict=True)] | None = None
    """Only for `mixture` and `rap`: the largest number of rounds, which select pairs of columns
    that the model answers badly. 0 measures all pairs at once. Not with `linear`. Pairs with one of
    the `labels` count four times. By default rho, the columns and the number of people decide
    between rounds and all pairs, and `stream-dp check` prints the decision."""
    rows: Literal["locations"] | None = None
    """Only for `rap`: `"locations"` models each number by a location in each of 1,000 components
    (Vietri et al. 2022), which is better for some predictions and worse for pairs, triples and
    thresholds than the default, a mixture of the bins. Not with `rounds`."""
    per_round: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    """The largest number of pairs that a declared round selects. By default a quarter of the number
    of columns."""
    fuse: UnlessOff = None
    """By default each table of a schedule also uses the measurements of the release in earlier
    periods, free of charge. `false` fits every table alone."""
    first: Probability | None = None
    """The first table's part of the total rho of tables that are combined. All other tables have
    equal costs. By default a fifth; with five tables or fewer all tables have equal costs."""
    derived: Annotated[dict[Name, Derived], Field(min_length=1, max_length=64)] | None = None
    """`[releases.derived.NAME]`: columns that are a public function of another column, such as a
    region's density. Derived columns are not fitted, but computed in the table. A derived column
    that is one of the `attributes` is fitted as well: every synthetic row keeps the function."""
    rules: Annotated[
        tuple[Annotated[RuleText, rule_text(read_column_rule)], ...] | None, NoneIfEmpty
    ] = None
    """Public rules such as `["start <= end", "age < 16 -> married = no"]`. Every synthetic row
    satisfies every rule. Real people may break a rule: they are measured as they are."""

    @cached_property
    def listed_rules(self) -> tuple[Order | Implication, ...]:
        """The rules of the key `rules`, read."""
        return tuple(map(read_column_rule, self.rules or ()))

    @property
    def column_rules(self) -> tuple[ColumnRule, ...]:
        derived = (self.derived or {}).items()
        functions = [Function(name, d.of, d.values) for name, d in derived if name in self.names]
        return (*self.listed_rules, *functions)

    @property
    def computed(self) -> dict[str, Derived]:
        """The derived columns that are not fitted."""
        return {n: d for n, d in (self.derived or {}).items() if n not in self.names}

    @property
    def derived_from(self) -> dict[str, str]:
        return {name: column.of for name, column in self.computed.items()}

    @property
    def fused(self) -> bool:
        return "fuse" in self.data_set.settings and self.fuse is not False

    @property
    def titles(self) -> tuple[str, ...]:
        if self.rows is not None:
            return (LOCATED_TITLE,)
        if self.chosen:
            return self.data_set.mechanism, PICKED_TITLE
        return (PICKED_TITLE,) if self.declared_rounds else super().titles

    def costs(self, data_sets: int) -> tuple[Fraction, ...]:
        if not self.fused or data_sets < 2:
            return super().costs(data_sets)
        total, share = self.rho * data_sets, self.first or max(FIRST, Fraction(1, data_sets))
        return (share * total, *[(1 - share) * total / (data_sets - 1)] * (data_sets - 1))

    @property
    def chosen(self) -> bool:
        """Whether rho, the columns and the number of people choose the measured pairs."""
        by_default = self.rounds is None and not self.linear and self.rows is None
        return "rounds" in self.data_set.settings and by_default

    @property
    def declared_rounds(self) -> tuple[int, int] | None:
        """The declared numbers of rounds and of pairs a round, or None without rounds."""
        if not self.rounds:
            return None
        return self.rounds, self.per_round or max(1, len(self.names) // 4)


def size_faults(columns: Sequence[tuple[str, int]], most: int = MOST_CELLS) -> Iterator[str]:
    """Faults of columns of people, each with its number of values.

    most: cells of the two largest columns together, at most.
    """
    yield from (f"column '{name}': one value alone" for name, values in columns if values < 2)
    cells = prod(sorted(values for _, values in columns)[-2:])
    if len(columns) > 1 and cells > most:
        yield f"people: the two largest columns have {cells:,} cells together; at most {most:,}"


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
