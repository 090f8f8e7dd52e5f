"""Figures of sizes of places: a chart for each region, up to a bound."""

from __future__ import annotations

from collections.abc import Sequence

from stream_dp.answers.size_answers import MeasuredRegion
from stream_dp.client import PublicLog

from .charts import Bar
from .feasible import for_people
from .groups_figures import DataSetFigures, Marginal

_MOST_REGIONS = 60  # with a chart on a page, from the top level down
_MOST_BARS = 12  # of a chart
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
            _marginal(
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
    if largest < _MOST_BARS:
        return [(size, size) for size in range(largest + 1)]
    ranges = [(0, 0), (1, 1)]
    while ranges[-1][1] < largest:
        last = ranges[-1][1]
        ranges.append((last + 1, 2 * last if len(ranges) < _MOST_BARS - 1 else largest))
    return ranges


def _name(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if last < largest else f"{first} or more"


def _marginal(
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
