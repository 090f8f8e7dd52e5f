"""Errors of a release of sizes on known sizes: before and after its levels are made consistent.

CONFIDENTIAL: errors are earth mover's distances to the true sizes, and no noise protects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from stream_dp.batch.base import FitContext
from stream_dp.batch.sizes.fit import FittedLevels, fit_levels
from stream_dp.batch.sizes.histogram import Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import Merge
from stream_dp.batch.sizes.plan import SizesPlan, omniscient_error
from stream_dp.privacy.noise import SeededNoise

from .table import WARNING, plain_table

BEFORE, AFTER, OMNISCIENT, NAIVE = "before", "after", "omniscient", "naive"
# Baselines: the merges of Kuo et al. 2018 on the same noisy values.
PAPERS: dict[str, Merge] = {"plain averages": "plain", "paper's weights": "weighted"}
METHODS = (BEFORE, AFTER, *PAPERS, NAIVE, OMNISCIENT)
_MOST_NAIVE = 1 << 25  # numbers of the naive histograms of a level

Levels = Sequence[Sequence[Sizes]]
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class LevelErrors:
    """The errors at one level under one budget.

    budget: its label.
    level, regions: the level's name and number of regions.
    measured: what was measured, by the number of repetitions that chose it.
    distances: by method, the mean distance of a region, over all repetitions. `omniscient` is the
        yardstick, which knows what sizes occur; `naive` is missing where it would be too large.
    """

    budget: str
    level: str
    regions: int
    measured: Mapping[str, int]
    distances: Mapping[str, float]


@dataclass(frozen=True)
class SizesReport:
    """The errors of one release on the places at one period's close.

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

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "confidential": True,
            "warning": WARNING,
            "study": self.study,
            "release": self.release,
            "kind": "sizes",
            "period": self.period,
            "places": self.places,
            "people": self.people,
            "repetitions": self.repetitions,
            "seed": self.seed,
            "rhos": {label: str(rho) for label, rho in self.rhos.items()},
            "errors": [asdict(each) for each in self.errors],
        }


@dataclass(frozen=True)
class SizesReports:
    """The reports of all releases of sizes of a study."""

    releases: tuple[SizesReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
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
    """The errors of each plan, by its label, on known sizes of the smallest regions.

    progress: called with a label and how many repetitions are done, of how many.
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
            known = [m for m in METHODS if m in runs[0].distances[depth]]
            errors.append(
                LevelErrors(
                    label,
                    name,
                    len(true[depth]),
                    {m: methods.count(m) for m in dict.fromkeys(methods)},
                    {m: float(np.mean([run.distances[depth][m] for run in runs])) for m in known},
                )
            )
    return tuple(errors)


@dataclass(frozen=True)
class _Run:
    """One repetition: of each level the method that was measured, and the errors by method."""

    methods: list[str]
    distances: list[dict[str, float]]


def _run(leaves: Sequence[Sizes], plan: SizesPlan, true: Levels, seed: int) -> _Run:
    noise = SeededNoise(seed)
    fitted = fit_levels(leaves, plan, FitContext(noise))
    merged = {AFTER: fitted.sizes}
    for name, merge in PAPERS.items():
        papers = replace(plan, merge=merge)
        merged[name] = FittedLevels(papers, fitted.levels, fitted.edition).sizes
    naive = _naive(leaves, plan, noise)
    distances = []
    for depth, (level, declared) in enumerate(zip(fitted.levels, plan.levels, strict=True)):
        own = {BEFORE: _distance([e.sizes for e in level.estimates], true[depth])}
        own |= {name: _distance(sizes[depth], true[depth]) for name, sizes in merged.items()}
        if naive is not None:
            own[NAIVE] = _distance(naive[depth], true[depth])
        distinct = sum(len(region.size) for region in true[depth])
        deviation = declared.variance(level.method) ** 0.5
        own[OMNISCIENT] = omniscient_error(distinct, deviation) / len(true[depth])
        distances.append(own)
    return _Run([level.method for level in fitted.levels], distances)


def _naive(leaves: Sequence[Sizes], plan: SizesPlan, noise: SeededNoise) -> Levels | None:
    """Histograms with noise of the same budget, projected; None where they would be too large."""
    levels = tuple(replace(level, methods=("histogram",)) for level in plan.levels)
    histograms = replace(plan, levels=levels)
    if any(histograms.entries(i, "histogram") > _MOST_NAIVE for i in range(len(levels))):
        return None
    fitted = fit_levels(leaves, histograms, FitContext(noise))
    return [[estimate.sizes for estimate in level.estimates] for level in fitted.levels]


def _distance(regions: Sequence[Sizes], true: Sequence[Sizes]) -> float:
    """The mean distance of a region."""
    return sum(map(earth_movers_distance, regions, true)) / len(true)


def sizes_text(reports: SizesReports) -> str:
    """A table for each release and budget: a line for each level, a column for each method."""
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
        for budget in dict.fromkeys(each.budget for each in report.errors):
            own = [each for each in report.errors if each.budget == budget]
            lines = [
                [
                    f"{each.level}, {each.regions:,} regions, {' or '.join(each.measured)}",
                    *(_cell(each.distances.get(method)) for method in METHODS),
                ]
                for each in own
            ]
            texts.append(plain_table([budget, *METHODS], lines))
    return "\n\n".join(texts)


def _cell(distance: float | None) -> str:
    return "-" if distance is None else f"{distance:,.1f}"
