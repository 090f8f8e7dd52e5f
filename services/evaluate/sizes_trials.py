"""Errors of a release of sizes on known sizes, before and after its levels are made consistent.

CONFIDENTIAL: errors are earth mover's distances to the true sizes, and no noise protects them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from stream_dp.batch.sizes.declared_sizes import declared_plan
from stream_dp.batch.sizes.histogram import Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import Merge
from stream_dp.batch.sizes.region_tables import counted_regions
from stream_dp.batch.sizes.sizes_fit import fit_levels
from stream_dp.batch.sizes.sizes_plan import SizesPlan, omniscient_error
from stream_dp.batch.synthesizer import FitContext
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import SizesRelease

from ..intake.group_tables import PlacesTable
from ..process.command_output import WARNING, plain_table
from .table_evaluations import Trials, fit_bar, last_due

BEFORE, AFTER, OMNISCIENT = "before", "after", "omniscient"
# Baselines: the merges of Kuo et al. 2018 on the same noisy values.
PAPERS: dict[str, Merge] = {"plain averages": Merge.PLAIN, "paper's weights": Merge.WEIGHTED}
METHODS = (BEFORE, AFTER, *PAPERS, OMNISCIENT)

Levels = Sequence[Sequence[Sizes]]


@dataclass(frozen=True)
class LevelErrors:
    """The errors at a level under a budget.

    budget: its label.
    level, regions: the level's name and number of regions.
    measured: the method of the measurements, or the methods from which one is chosen.
    distances: by method, the mean distance of a region, over all repetitions. `omniscient` is the
        baseline that knows which sizes occur.
    """

    budget: str
    level: str
    regions: int
    measured: str
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


def judged_sizes(trials: Trials, place_table: PlacesTable) -> list[SizesReport]:
    """A report per release of sizes, on the true sizes of the smallest regions. Raises UserError.

    trials: what is known is empty with a table of counts.
    """
    study, reports = trials.study, list[SizesReport]()
    for release in study.of(SizesRelease):
        label = trials.at or last_due(study, release)
        codes = None
        if release.attribute is not None:
            codes = trials.known[release.attribute][:, study.periods.numbers[label] - 1]
        counts = place_table.sizes(codes, release.largest)
        regions, leaves = counted_regions(counts, place_table.columns)
        plans = {
            f"rho {scaled.rho}": declared_plan(study, scaled, regions)
            for scaled in _scaled(release, trials.scales)
        }
        reports.append(
            SizesReport(
                study=study.name,
                release=release.name,
                period=label,
                places=sum(leaf.total for leaf in leaves),
                people=sum(leaf.members for leaf in leaves),
                repetitions=trials.repetitions,
                seed=trials.seed,
                rhos={budget: plan.rho for budget, plan in plans.items()},
                errors=tuple(_errors(trials, release.name, leaves, plans)),
            )
        )
    return reports


def _scaled(release: SizesRelease, scales: Sequence[str]) -> list[SizesRelease]:
    """The release at every budget. Raises UserError."""
    if not scales:
        return [release]
    if release.epsilon is not None:
        raise UserError(f"--scales: '{release.name}' has its epsilon by level; leave it out")
    rhos = [release.rho * Fraction(scale) for scale in scales]
    return [release.model_copy(update={"rho": rho}) for rho in rhos]


def _errors(
    trials: Trials, name: str, leaves: Sequence[Sizes], plans: Mapping[str, SizesPlan]
) -> Iterator[LevelErrors]:
    """The errors of every plan, by its label. name: of the release."""
    with fit_bar(name) as progress:
        for label, plan in plans.items():
            true = plan.regions.sums([sizes.capped(plan.largest) for sizes in leaves])
            runs = []
            for i in range(trials.repetitions):
                runs.append(_run(leaves, plan, true, trials.seed + i))
                progress(label, i + 1, trials.repetitions)
            for depth, level in enumerate(("all", *plan.regions.columns)):
                yield LevelErrors(
                    label,
                    level,
                    len(true[depth]),
                    " or ".join(one.method for one in plan.levels[depth].candidates),
                    {m: float(np.mean([run[depth][m] for run in runs])) for m in METHODS},
                )


def _run(
    leaves: Sequence[Sizes], plan: SizesPlan, true: Levels, seed: int
) -> list[dict[str, float]]:
    """The errors of a repetition, by level and method."""
    fitted = fit_levels(leaves, plan, FitContext(SeededNoise(seed)))
    merged = {AFTER: fitted.sizes}
    merged |= {name: fitted.merged(merge) for name, merge in PAPERS.items()}
    distances = []
    for depth, level in enumerate(fitted.levels):
        errors = {BEFORE: _distance([e.sizes for e in level.estimates], true[depth])}
        errors |= {name: _distance(sizes[depth], true[depth]) for name, sizes in merged.items()}
        distinct = sum(len(region.size) for region in true[depth])
        errors[OMNISCIENT] = omniscient_error(distinct, level.plan.variance**0.5) / len(true[depth])
        distances.append(errors)
    return distances


def _distance(regions: Sequence[Sizes], true: Sequence[Sizes]) -> float:
    """Computes the mean distance of a region."""
    return sum(map(earth_movers_distance, regions, true)) / len(true)


def sizes_text(reports: Sequence[SizesReport]) -> str:
    """Writes a table per release and budget.

    It has a line for each level and a column for each method.
    """
    texts = []
    for report in reports:
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
                    f"{level.level}, {level.regions:,} regions, {level.measured}",
                    *(f"{level.distances[method]:,.1f}" for method in METHODS),
                ]
                for level in levels
            ]
            texts.append(plain_table([budget, *METHODS], lines))
    return "\n\n".join(texts)
