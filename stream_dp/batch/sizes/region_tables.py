"""Sizes of groups by region, from a table of counts, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, arrow_table, missing_columns
from stream_dp.privacy.noise import noise_source
from stream_dp.release.answer import Answer, MeasuredRegion
from stream_dp.study.call_arguments import Number, exact_rho
from stream_dp.study.place_releases import MOST_SIZE, NOTHING_TO_PROTECT, RELATIONS

from ..data.domain import Int64Array
from ..data.hierarchy_tables import text_column
from ..synthesizer import FitContext
from .histogram import Regions, Sizes
from .size_estimates import METHODS
from .sizes_fit import FittedLevels, fit_levels
from .sizes_plan import SizesPlan, default_methods, level_plan, omniscient_error

MOST_ENTRIES = 1 << 32  # values that a level measures
ALL = "all"  # the name of the root's level


@dataclass(frozen=True)
class FittedSizes:
    """The groups of every region by size. fitted: the measurements and their plan."""

    fitted: FittedLevels

    @property
    def rho(self) -> Fraction:
        """The cost in zCDP."""
        return self.fitted.plan.rho

    @cached_property
    def levels(self) -> pa.Table:
        """A row per level, the root's first, of public numbers.

        level: the name. regions, groups: their numbers. method: declared or chosen. rho: the cost.
        deviation: of the noise in a value. omniscient: the mean error of a region, as an earth
        mover's distance, if only the published sizes had been known beforehand to occur (Kuo et al.
        2018, section 6): a yardstick, no promise.
        """
        plan = self.fitted.plan
        rows = []
        for i, (name, level) in enumerate(zip(self._names, self.fitted.levels, strict=True)):
            deviation = level.plan.variance**0.5
            regions = self.fitted.sizes[i]
            distinct = sum(len(region.size) for region in regions)
            rows.append(
                {
                    "level": name,
                    "regions": len(regions),
                    "groups": int(plan.regions.counts[i].sum()),
                    "method": level.plan.method,
                    "rho": str(plan.levels[i].rho),
                    "deviation": deviation,
                    "omniscient": omniscient_error(distinct, deviation) / len(regions),
                }
            )
        return pa.Table.from_pylist(rows)

    @property
    def _names(self) -> tuple[str, ...]:
        return (ALL, *self.fitted.plan.regions.columns)

    @cached_property
    def sizes(self) -> pa.Table:
        """The numbers of groups: level, a column per level below the root, size, groups.

        Columns of levels below the region's level are null. In every region the groups add up to
        the public number, and the groups of children to those of their parent.
        """
        levels = self.fitted.sizes
        return self._table(
            [[len(region.size) for region in level] for level in levels],
            size=np.concatenate([region.size for level in levels for region in level]),
            groups=np.concatenate([region.groups for level in levels for region in level]),
        )

    @cached_property
    def measurements(self) -> pa.Table:
        """The noisy values: level, columns of levels as in `sizes`, entry, value, variance.

        Entries of cumulative counts and of histograms are sizes from 0 on, those of sorted sizes
        are ranks from 0 on. Levels with over a million values are left out.
        """
        levels = [level.values or () for level in self.fitted.levels]
        regions = [values for level in levels for values in level]
        variances = [
            np.full(len(values), level.plan.variance)
            for level in self.fitted.levels
            for values in level.values or ()
        ]
        none = np.zeros(0, np.int64)
        return self._table(
            [[len(values) for values in level] for level in levels],
            entry=np.concatenate([none, *(np.arange(len(values)) for values in regions)]),
            value=np.concatenate([none, *regions]),
            variance=np.concatenate([none.astype(float), *variances]),
        )

    def _table(self, rows: Sequence[Sequence[int]], **columns: np.ndarray) -> pa.Table:
        """A table with the names of regions, given the numbers of rows by level and region."""
        regions = self.fitted.plan.regions
        repeats = [np.array(counts, np.int64) for counts in rows]
        names = {"level": np.repeat(self._names, [int(counts.sum()) for counts in repeats])}
        for position, column in enumerate(regions.columns):
            labels = [
                np.array([p[position] if position < len(p) else None for p in paths], object)
                for paths in regions.levels
            ]
            names[column] = np.concatenate(list(map(np.repeat, labels, repeats)))
        text = {name: pa.array(values, pa.string()) for name, values in names.items()}
        return pa.table({**text, **{name: pa.array(values) for name, values in columns.items()}})

    def answer(self, query: str, *region: str) -> Answer:
        """The answer to a query about a region, given its path from the top; by default the root.

        Queries: `size 3`, `at-least 3`, `quantile 1/2`, `mean`, `skewness`. Raises UserError.
        """
        plan, depth = self.fitted.plan, len(region)
        paths = plan.regions.levels[depth] if depth < plan.regions.depth else ()
        if region not in paths:
            raise UserError(f"region {'/'.join(region)}: there is no such region")
        position, level = paths.index(region), self.fitted.levels[depth]
        return MeasuredRegion(
            size=self.fitted.sizes[depth][position].size,
            groups=self.fitted.sizes[depth][position].groups,
            largest=plan.largest,
            method=level.plan.method,
            values=level.values[position] if level.values is not None else None,
            variance=level.plan.variance,
        ).answer(query, region=region)


def fit_sizes(
    counts: ArrowStream,
    *,
    regions: Sequence[str],
    neighbours: str,
    largest: int,
    rho: Number | None = None,
    epsilon: Number | None = None,
    methods: Sequence[str | Sequence[str]] | None = None,
    parts: Sequence[int] | None = None,
    simulation_seed: int | None = None,
) -> FittedSizes:
    """Estimates the number of groups of every size, for every region of a tree, consistently.

    Protects a person's membership in a group, and under `add_remove` also their presence. The
    number of groups of each region, empty groups included, is public. Each call is charged anew;
    there is no ledger here.

    counts: columns `size` and `groups`, and those of the regions: so many groups of that size; of
        pyarrow, pandas from 2.2 on, polars, or any library with Arrow's PyCapsule interface.
    regions: the columns that name a region, from the top down; all regions together are the root.
    neighbours: `add_remove` or `replace_one`.
    largest: a public cap: larger groups count as groups of this size.
    rho: the cost, or
    epsilon: the same as pure differential privacy, with double-geometric noise.
    methods: for each level, the root's first: `sorted`, `cumulative-squares`, `cumulative` or
        `naive`, or several, of which one is chosen privately. By default `sorted` where regions
        have fewer than 200 groups on average, else `cumulative-squares`.
    parts: of the budget, by level; equal by default.
    simulation_seed: for simulations only: repeatable noise, which protects nobody.

    Raises UserError.

    >>> import pyarrow, stream_dp
    >>> blocks = pyarrow.table({
    ...     "county": ["north", "north", "south"], "size": [0, 2, 5], "groups": [60, 30, 10]})
    >>> fitted = stream_dp.fit_sizes(
    ...     blocks, regions=["county"], neighbours="add_remove", largest=20, rho="1/2",
    ...     simulation_seed=1)
    >>> fitted.sizes.column_names, fitted.rho
    (['level', 'county', 'size', 'groups'], Fraction(1, 2))
    >>> fitted.answer("at-least 1", "north").value <= 90
    True
    """
    if neighbours == "replace_in_place":
        raise UserError(NOTHING_TO_PROTECT)
    if neighbours not in RELATIONS:
        raise UserError(f"neighbours: must be one of {', '.join(RELATIONS)}")
    if type(largest) is not int or not 1 <= largest <= MOST_SIZE:
        raise UserError(f"largest: must be a whole number from 1 to {MOST_SIZE}")
    tree, leaves = counted_regions(arrow_table(counts, "counts"), regions)
    if (rho is None) == (epsilon is None):
        raise UserError("rho, epsilon: give one of the two")
    name, pure = ("rho", False) if epsilon is None else ("epsilon", True)
    total = exact_rho(name, rho if epsilon is None else epsilon)
    parts = parts if parts is not None else [1] * tree.depth
    _require_parts(parts, tree.depth)
    candidates = _candidate_methods(
        methods if methods is not None else default_methods(tree), tree.depth, pure=pure
    )
    levels = tuple(
        level_plan(neighbours, names, total * weight / sum(parts), pure=pure)
        for names, weight in zip(candidates, parts, strict=True)
    )
    plan = SizesPlan(tree, largest, levels)
    require_feasible(plan)
    noise = noise_source(simulation_seed)
    return FittedSizes(fit_levels(leaves, plan, FitContext(noise)))


def _require_parts(parts: Sequence[int], depth: int) -> None:
    """Raises UserError unless there is a positive whole number for each level."""
    if (
        not isinstance(parts, Sequence)
        or len(parts) != depth
        or any(not isinstance(part, int) or part < 1 for part in parts)
    ):
        raise UserError(f"parts: give {depth} whole numbers from 1 on, the root's first")


def _candidate_methods(
    declared: Sequence[str | Sequence[str]], depth: int, *, pure: bool
) -> list[tuple[str, ...]]:
    """The methods of each level, of which one is chosen. Raises UserError."""
    if not isinstance(declared, Sequence) or len(declared) != depth:
        raise UserError(f"methods: give {depth} of them, the root's first")
    candidates = [(level,) if isinstance(level, str) else tuple(level) for level in declared]
    if any(method not in METHODS for level in candidates for method in level):
        raise UserError(f"methods: each must be one of {', '.join(METHODS)}")
    if any(not level or len({*level}) < len(level) for level in candidates):
        raise UserError("methods: give at least one method for each level, each once")
    if pure and any(len(level) > 1 for level in candidates):
        raise UserError("methods: a choice between several needs rho instead of epsilon")
    return candidates


def require_feasible(plan: SizesPlan) -> None:
    """Raises UserError where a level has too many values to measure."""
    for depth, name in enumerate((ALL, *plan.regions.columns)):
        methods = (level.method for level in plan.levels[depth].candidates)
        entries = max(plan.entries(depth, method) for method in methods)
        if entries > MOST_ENTRIES:
            raise UserError(
                f"methods: {entries} values to measure at level '{name}'; take 'sorted'"
            )


def counted_regions(counts: pa.Table, columns: Sequence[str]) -> tuple[Regions, list[Sizes]]:
    """The tree and the sizes of its smallest regions.

    counts: columns `size` and `groups`, and those of the regions: so many groups of that size.
    Raises UserError.
    """
    texts, sizes, groups = _checked_counts(counts, columns)
    coded = [text.dictionary_encode() for text in texts]
    codes = np.stack([c.indices.to_numpy() for c in coded], axis=1)  # (rows, levels)
    paths, leaf = np.unique(codes, axis=0, return_inverse=True)
    order = np.argsort(leaf.ravel(), kind="stable")  # rows by leaf
    ends = np.searchsorted(leaf.ravel()[order], np.arange(len(paths) + 1))
    values = [c.dictionary.to_pylist() for c in coded]
    leaves = {
        tuple(v[code] for v, code in zip(values, path.tolist(), strict=True)): Sizes.of(
            sizes[order[first:end]], groups[order[first:end]]
        )
        for path, first, end in zip(paths, ends[:-1], ends[1:], strict=True)
    }
    tree = Regions.of(columns, {path: leaf_sizes.total for path, leaf_sizes in leaves.items()})
    return tree, [leaves[path] for path in tree.leaves]


def _checked_counts(
    counts: pa.Table, columns: Sequence[str]
) -> tuple[list[pa.Array], Int64Array, Int64Array]:
    """The columns of regions as texts, and the sizes and groups (rows,). Raises UserError."""
    reserved = {"level", "size", "groups", "entry", "value", "variance"}
    listed = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not listed or not columns or len({*columns}) < len(columns) or reserved & {*columns}:
        raise UserError("regions: name at least one column, each once, and none that is reserved")
    lines = missing_columns("counts", counts.column_names, [*columns, "size", "groups"])
    if lines:
        raise UserError(lines)
    texts = [text_column(counts, name) for name in columns]
    lines = [
        f"counts: {text.null_count} rows without '{name}'"
        for name, text in zip(columns, texts, strict=True)
        if text.null_count
    ]
    numbers = {}
    for name, bound in (("size", 1 << 31), ("groups", 1 << 40)):
        column = counts[name]
        if not pa.types.is_integer(column.type) or column.null_count:
            lines.append(f"counts: '{name}' must be whole numbers")
            continue
        numbers[name] = column.to_numpy().astype(np.int64)
        if len(column) and not 0 <= numbers[name].min() <= numbers[name].max() < bound:
            lines.append(f"counts: '{name}' must not be negative, nor {bound} or more")
    if lines:
        raise UserError(lines)
    if not len(counts):
        raise UserError("counts: no rows")
    return texts, numbers["size"], numbers["groups"]
