"""Figures of a data set: the shares of the values of its columns, and what was measured.

Sizes of places have a chart for each region, up to a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pyarrow as pa

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.query import EVERYBODY, attribute_title
from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.client import PublicLog
from stream_dp.errors import NotThere, UserError
from stream_dp.figures.marks import Chart
from stream_dp.release.answer import MeasuredRegion
from stream_dp.release.published_tables import binned
from stream_dp.study import Family
from stream_dp.study.families import DATA_SET_FAMILIES, Registry

from .answers_for_people import for_people
from .charts import Bar, bars

_MOST_REGIONS = 60  # with a chart on a page, from the top level down
_MOST_ROWS = 200  # of its numbers


def sizes_figures(public: PublicLog, name: str, period: str | None) -> DataSetFigures:
    """The figures of a release of sizes at a period. Raises UserError without a release."""
    sizes = public.sizes(name, period)
    certificate = sizes.certificate
    top = sizes.region()
    shown = [path for path in sizes.regions if sizes.region(*path).total][:_MOST_REGIONS]
    declared_places = public.study.places
    ranges = _ranges(int(top.size.max(initial=0)))
    unit = declared_places.unit if declared_places is not None else "place"
    return DataSetFigures(
        name=name,
        period=certificate.period,
        periods=tuple(public.periods_of(name)),
        groups=certificate.groups,
        people=int(top.size @ top.groups),
        group=unit,
        mechanism=certificate.mechanism,
        marginals=tuple(
            _size_marginal(
                f"{unit}s by size", "/".join(path) or "all regions", sizes.region(*path), ranges
            )
            for path in shown
        ),
        measured=tuple(
            (f"{level.name}: {level.method}, {level.noise} noise", f"{level.regions:,} regions", "")
            for level in certificate.levels
        ),
        measured_count=certificate.measured,
        pairs=(),
        regions=len(sizes.regions),
    )


def _ranges(largest: int) -> list[tuple[int, int]]:
    """The sizes of every bar: single sizes if they fit, otherwise doubling ranges."""
    if largest < _MOST_SIZES:
        return [(size, size) for size in range(largest + 1)]
    ranges = [(0, 0), (1, 1)]
    while ranges[-1][1] < largest:
        last = ranges[-1][1]
        ranges.append((last + 1, 2 * last if len(ranges) < _MOST_SIZES - 1 else largest))
    return ranges


def _name(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if last < largest else f"{first} or more"


def _size_marginal(
    table: str, region_name: str, region: MeasuredRegion, ranges: Sequence[tuple[int, int]]
) -> Marginal:
    """The groups of a region by size."""
    total = region.total
    pairs = zip(region.size.tolist(), region.groups.tolist(), strict=True)
    rows = tuple((str(size), f"{count:,}", f"{count / total:.2%}") for size, count in pairs)
    largest = ranges[-1][1]
    shown = [
        Bar(
            _name(first, last, largest),
            float(region.groups[(region.size >= first) & (region.size <= last)].sum()) / total,
            *_interval(region, first, last, largest),
        )
        for first, last in ranges
    ]
    return Marginal(
        table,
        region_name,
        f"Sizes in {region_name}",
        f"% of {total:,} by size",
        tuple(shown),
        ("size", table.partition(" ")[0], "share"),
        rows[:_MOST_ROWS],
    )


def _interval(
    region: MeasuredRegion, first: int, last: int, largest: int
) -> tuple[float | None, float | None]:
    """The interval of the share of groups of some sizes, where this region's measurements say it.

    A single size is measured, and so is the range up to the largest size.
    """
    if first != last and last != largest:
        return None, None
    answer = region.answer(f"size {first}" if first == last else f"at-least {first}")
    if answer.interval is None:
        return None, None
    low, high = for_people(answer, region.total).ends
    return low / region.total, high / region.total


_MOST_SIZES = 12  # bars of sizes; the rest is one bar
_MOST_BARS = 36  # of one column, which has all bins of a range by default; the rest is one bar
_MOST_ANSWERS = 400  # that a page estimates for its bars


@dataclass(frozen=True)
class Marginal:
    """The values of a column with their shares of the rows of its table.

    title: what the bars are of.
    unit: the text above the bars.
    bars: with intervals where the shares are estimates from measurements.
    columns, rows: the numbers as a table.
    """

    table: str
    column: str
    title: str
    unit: str
    bars: tuple[Bar, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def path(self) -> str:
        """The column as `table:column`."""
        return f"{self.table}:{self.column}"

    @property
    def description(self) -> str:
        """The shares as a sentence."""
        shares = ", ".join(
            f"{bar.name} {bar.share:.1%}"
            + ("" if bar.high is None else f" ({bar.low:.1%} to {bar.high:.1%})")
            for bar in self.bars
        )
        return f"{self.title}, {self.unit.partition(',')[0]}: {shares}."

    @property
    def chart(self) -> Chart:
        """The bars as a chart of a page."""
        return self.drawn((360.0, math.inf))

    def drawn(self, size: tuple[float, float]) -> Chart:
        """The bars within a width and a height."""
        return bars(self.bars, self.unit, self.description, *size)


@dataclass(frozen=True)
class DataSetFigures:
    """The figures of a data set.

    measured: the noisy answers that it was fitted to: query, value, 95 % interval, as texts.
    pairs: the two-way tables that can be asked for, as `table:column:column`.
    regions: how many regions sizes are released of; 0 for synthetic rows.
    event_count, events: how many events the synthetic people have, and what they are called.
    """

    name: str
    period: str
    periods: tuple[str, ...]
    groups: int
    people: int
    group: str
    mechanism: str
    marginals: tuple[Marginal, ...]
    measured: tuple[tuple[str, str, str], ...]
    measured_count: int
    pairs: tuple[str, ...]
    regions: int = 0
    event_count: int = 0
    events: str = ""

    @property
    def columns_over_time(self) -> tuple[str, ...]:
        """The columns of several published periods, as `table:column`; none for sizes."""
        if self.regions or len(self.periods) < 2:
            return ()
        return tuple(marginal.path for marginal in self.marginals)


def data_set_figures(public: PublicLog, name: str, period: str | None) -> DataSetFigures:
    """The figures of a data set. Raises UserError without a data set."""
    data_set = public.data_set(name, period)
    certificate = data_set.certificate
    values_of, tables = binned(certificate.columns, data_set.check())
    published = public.published_tables(name, period)
    marginals, pairs, remaining = [], [], _MOST_ANSWERS
    for which, columns in values_of.items():
        names = [c for c in tables[which].column_names if c in columns]
        for column in names:
            answers = None
            if len(columns[column]) <= min(remaining, _MOST_BARS):
                remaining -= len(columns[column])
                answers = estimated_shares(published, which, [column])
            title, codes = attribute_title(public.study, column), tables[which][column]
            marginals.append(_marginal(published, which, column, title, codes, answers))
        pairs += [f"{which}:{a}:{b}" for a, b in combinations(names, 2)]
    unit = published.noun("groups").removesuffix("s")
    return DataSetFigures(
        name=name,
        period=certificate.period,
        periods=tuple(public.periods_of(name)),
        groups=certificate.groups,
        people=certificate.people,
        group=unit,
        mechanism=certificate.mechanism,
        marginals=tuple(marginals),
        measured=_measured(data_set.measurements.slice(0, 200)),
        measured_count=certificate.measured,
        pairs=tuple(pairs),
        event_count=tables["events"].num_rows if "events" in tables else 0,
        events=published.noun("events") if "events" in tables else "",
    )


def estimated_shares(
    published: PublishedTables, which: str, names: Sequence[str]
) -> JointAnswers | None:
    """The estimated shares, of all rows, of the combinations of values of some columns.

    They have the covariance of their errors. None where a share is not measured.
    """
    prefix = "" if published.link is None else f"{which}: "
    queries = [
        f"{prefix}{' & '.join(map('='.join, zip(names, map(str, values), strict=True)))}"
        f" among {EVERYBODY}"
        for values in product(*(published.columns[which][name] for name in names))
    ]
    try:
        joint = Conjunctions(published).joint(queries, count=False)
    except UserError:
        return None
    has_errors = all(a.standard_error is not None and a.interval for a in joint.answers)
    return joint if has_errors else None


def _marginal(
    published: PublishedTables,
    which: str,
    column: str,
    words: str,
    codes: pa.Array,
    estimates: JointAnswers | None,
) -> Marginal:
    """A column's bars: its estimated shares, or without estimates those of the synthetic rows.

    words: the column in words.
    """
    values, called = published.columns[which][column], published.noun(which)
    counts = np.bincount(codes.to_numpy(), minlength=len(values))
    total = max(1, int(counts.sum()))
    rows = [
        (str(value), f"{int(count):,}", f"{count / total:.2%}")
        for value, count in zip(values, counts, strict=True)
    ]
    title, columns = f"{words} ({called})", ("value", "synthetic rows", "their share")
    if estimates is not None:
        answers = [for_people(limited_records(answer)) for answer in estimates.answers]
        shown = [
            Bar(str(value), answer.value, *answer.ends, unbiased)
            for value, answer, unbiased in zip(values, answers, estimates.answers, strict=True)
        ]
        unit = f"% of all {called}, with 95% intervals of the noise"
        return Marginal(
            which,
            column,
            title,
            unit,
            tuple(shown),
            (*columns, "estimate", "95% interval"),
            tuple(
                (*row, f"{a.value:.2%}", f"{a.ends[0]:.2%} to {a.ends[1]:.2%}")
                for row, a in zip(rows, answers, strict=True)
            ),
        )
    shown = [Bar(str(v), float(c) / total) for v, c in zip(values, counts, strict=True)]
    if len(shown) > _MOST_BARS:
        rest = sum(bar.share for bar in shown[_MOST_BARS - 1 :])
        shown = [*shown[: _MOST_BARS - 1], Bar("all others", rest)]
    unit = f"% of the synthetic {called}"
    return Marginal(which, column, title, unit, tuple(shown), columns, tuple(rows))


def _measured(table: pa.Table) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (
            row["query"],
            f"{row['value']:,.0f}",
            f"{row['value'] - 1.96 * row['standard_error']:,.0f} to"
            f" {row['value'] + 1.96 * row['standard_error']:,.0f}",
        )
        for row in table.to_pylist()
    )


FIGURES: Registry[Family, Callable[[PublicLog, str, str | None], DataSetFigures]] = Registry(
    "figures of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: data_set_figures,
        Family.HOUSEHOLDS: data_set_figures,
        Family.EVENTS: data_set_figures,
        Family.SIZES: sizes_figures,
    },
)


def any_figures(public: PublicLog, name: str, period: str | None) -> DataSetFigures:
    """The figures of a data set of any family. Raises UserError without a data set."""
    declared = public.study.batch(name)
    if declared is None:
        raise NotThere(f"release '{name}': nothing is published of it yet")
    return FIGURES[declared.family](public, name, period)
