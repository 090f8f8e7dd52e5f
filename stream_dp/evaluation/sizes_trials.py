"""Errors of a release of sizes on known sizes, before and after its levels are made consistent.

CONFIDENTIAL: errors are earth mover's distances to the true sizes, and no noise protects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction

import numpy as np

from stream_dp.batch.sizes.histogram import Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import Merge
from stream_dp.batch.sizes.sizes_fit import fit_levels
from stream_dp.batch.sizes.sizes_plan import SizesPlan, omniscient_error
from stream_dp.batch.synthesizer import FitContext
from stream_dp.json_object import Json
from stream_dp.privacy.noise import SeededNoise

from .text_tables import WARNING, plain_table

BEFORE, AFTER, OMNISCIENT, NAIVE = "before", "after", "omniscient", "naive"
# Baselines: the merges of Kuo et al. 2018 on the same noisy values.
PAPERS: dict[str, Merge] = {"plain averages": Merge.PLAIN, "paper's weights": Merge.WEIGHTED}
METHODS = (BEFORE, AFTER, *PAPERS, NAIVE, OMNISCIENT)
_MOST_NAIVE = 1 << 25  # numbers of the naive histograms of a level

Levels = Sequence[Sequence[Sizes]]
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class LevelErrors:
    """The errors at a level under a budget.

    budget: its label.
    level, regions: the level's name and number of regions.
    measured: the number of repetitions that chose each method.
    distances: by method, the mean distance of a region, over all repetitions. `omniscient` is the
        baseline that knows which sizes occur; `naive` is missing if it would be too large.
    """

    budget: str
    level: str
    regions: int
    measured: Mapping[str, int]
    distances: Mapping[str, float]


@dataclass(frozen=True)
class SizesReport:
    """The errors of a release on the places at a period's close.

    rhos: by the label of each budget, in the owner's order.
    """

    study: str
    release: str
    period: str
    places: int
    people: int
    repetitions: int
    seed: int
    rhos: Mapping[str, Fraction]
    errors: tuple[LevelErrors, ...]

    def as_dict(self) -> Json:
        """Converts the report to JSON values."""
        rhos = {label: str(rho) for label, rho in self.rhos.items()}
        values = {**asdict(self), "kind": "sizes", "rhos": rhos}
        return {"confidential": True, "warning": WARNING, **values}


@dataclass(frozen=True)
class SizesReports:
    """The reports of all releases of sizes of a study."""

    releases: tuple[SizesReport, ...]

    def as_dict(self) -> Json:
        """Converts the reports to JSON values."""
        reports = [report.as_dict() for report in self.releases]
        if len(reports) == 1:
            return reports[0]
        return {"confidential": True, "warning": WARNING, "releases": reports}


def evaluate_sizes(
    leaves: Sequence[Sizes],
    plans: Mapping[str, SizesPlan],
    repetitions: int,
    *,
    seed: int,
    progress: Progress = lambda subject, done, all_: None,
) -> tuple[LevelErrors, ...]:
    """Measures the errors of each plan, by its label, on known sizes of the smallest regions.

    progress: called with a label, the number of finished repetitions and their total.
    """
    errors: list[LevelErrors] = []
    for label, plan in plans.items():
        true = plan.regions.sums([sizes.capped(plan.largest) for sizes in leaves])
        runs = []
        for i in range(repetitions):
            runs.append(_run(leaves, plan, true, seed + i))
            progress(label, i + 1, repetitions)
        names = ("all", *plan.regions.columns)
        for depth, name in enumerate(names):
            methods = [run.methods[depth] for run in runs]
            measured = [m for m in METHODS if m in runs[0].distances[depth]]
            errors.append(
                LevelErrors(
                    label,
                    name,
                    len(true[depth]),
                    {m: methods.count(m) for m in dict.fromkeys(methods)},
                    {
                        m: float(np.mean([run.distances[depth][m] for run in runs]))
                        for m in measured
                    },
                )
            )
    return tuple(errors)


@dataclass(frozen=True)
class _Run:
    """A repetition: the measured method of each level, and the errors by method."""

    methods: list[str]
    distances: list[dict[str, float]]


def _run(leaves: Sequence[Sizes], plan: SizesPlan, true: Levels, seed: int) -> _Run:
    noise = SeededNoise(seed)
    fitted = fit_levels(leaves, plan, FitContext(noise))
    merged = {AFTER: fitted.sizes}
    merged |= {name: fitted.merged(merge) for name, merge in PAPERS.items()}
    naive = _naive(leaves, plan, noise)
    distances = []
    for depth, (level, declared) in enumerate(zip(fitted.levels, plan.levels, strict=True)):
        errors = {BEFORE: _distance([e.sizes for e in level.estimates], true[depth])}
        errors |= {name: _distance(sizes[depth], true[depth]) for name, sizes in merged.items()}
        if naive is not None:
            errors[NAIVE] = _distance(naive[depth], true[depth])
        distinct = sum(len(region.size) for region in true[depth])
        deviation = declared.variance(level.method) ** 0.5
        errors[OMNISCIENT] = omniscient_error(distinct, deviation) / len(true[depth])
        distances.append(errors)
    return _Run([level.method for level in fitted.levels], distances)


def _naive(leaves: Sequence[Sizes], plan: SizesPlan, noise: SeededNoise) -> Levels | None:
    """Projects histograms with noise of the same budget. Returns None for too large histograms."""
    levels = tuple(replace(level, methods=("histogram",)) for level in plan.levels)
    histograms = replace(plan, levels=levels)
    if any(histograms.entries(i, "histogram") > _MOST_NAIVE for i in range(len(levels))):
        return None
    fitted = fit_levels(leaves, histograms, FitContext(noise))
    return [[estimate.sizes for estimate in level.estimates] for level in fitted.levels]


def _distance(regions: Sequence[Sizes], true: Sequence[Sizes]) -> float:
    """Computes the mean distance of a region."""
    return sum(map(earth_movers_distance, regions, true)) / len(true)


def sizes_text(reports: SizesReports) -> str:
    """Writes a table for each release and budget.

    It has a line for each level and a column for each method.
    """
    texts = []
    for report in reports.releases:
        about = (
            f"study {report.study}, {report.release} (sizes) at {report.period}:"
            f" {report.places:,} places, {report.people:,} people,"
            f" repetitions: {report.repetitions}, seed {report.seed}"
        )
        texts.append(
            f"{WARNING}\n{about}\nearth mover's distance of a region to the truth, in people, mean;"
            " omniscient: if it were known which sizes occur"
        )
        for budget in dict.fromkeys(level.budget for level in report.errors):
            levels = [level for level in report.errors if level.budget == budget]
            lines = [
                [
                    f"{level.level}, {level.regions:,} regions, {' or '.join(level.measured)}",
                    *(_cell(level.distances.get(method)) for method in METHODS),
                ]
                for level in levels
            ]
            texts.append(plain_table([budget, *METHODS], lines))
    return "\n\n".join(texts)


def _cell(distance: float | None) -> str:
    return "-" if distance is None else f"{distance:,.1f}"
