"""`stream-dp evaluate`: errors of a study's mechanisms on known data. CONFIDENTIAL."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from stream_dp.batch import kinds
from stream_dp.errors import UserError, missing_extra
from stream_dp.planning.panel_errors import panel_errors
from stream_dp.planning.plan import plan_study
from stream_dp.release.published_panels import stated_errors
from stream_dp.study import DataSetRelease, Family, Study

from ..deployment import Deployment
from ..evaluations.size_evaluations import KnownSizes, known_places, known_sizes
from ..evaluations.table_evaluations import (
    TABLE_JUDGES,
    TableTrials,
    bar_progress,
    judged_tables,
)
from ..groups.place_table import PlacesTable
from ..groups.roster import Members
from ..groups.roster_files import roster_from_files
from ..intake.true_panel import true_panel, true_panel_and_members
from ..options import layout, member_group_column, roster_files, study_file, table_columns
from ..process.output import Output
from ..storage.atomic_files import atomic_folder

if TYPE_CHECKING:
    from stream_dp.evaluation.panels.panel_report import Evaluation, Sweep

# By default; a data set is fitted in each repetition, once for each budget and baseline.
REPETITIONS, FITS = 200, 5
Panel = Mapping[str, NDArray[np.unsignedinteger]]


@dataclass(frozen=True)
class Report:
    """The report on the releases of several families.

    data: as JSON values.
    figures: writes the figures to a folder and gives their paths.
    """

    data: dict[str, object]
    text: str
    figures: Callable[[Path], list[Path]] = lambda folder: []

    def write(self, name: str, folder: Path) -> list[Path]:
        """Writes text, numbers as JSON, and figures."""
        text, numbers = folder / f"{name}.txt", folder / f"{name}.json"
        text.write_text(self.text + "\n")
        numbers.write_text(json.dumps(self.data, indent=1))
        return [text, numbers, *self.figures(folder)]


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("truth", type=Path, metavar="TRUTH")
    help_text = "runs of each mechanism; 200 by default, 5 of batch releases"
    parser.add_argument("--repetitions", type=int, metavar="R", help=help_text)
    parser.add_argument("--scales", metavar="X,...", help="repeat it with every rho times X")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="DIR", help="for figures, table and JSON")
    table_columns(parser)
    help_text = "where the study releases groups with their members"
    groups = parser.add_argument_group("groups", help_text)
    groups.add_argument("--groups", type=Path, metavar="FILE", help="a row for each group")
    groups.add_argument(
        "--members", type=Path, metavar="FILE", help="a row for each member, who is in TRUTH"
    )
    member_group_column(groups, "--members")
    help_text = (
        "table of places, as to 'stream-dp places'; not with a table of counts, which is TRUTH"
    )
    parser.add_argument("--places", type=Path, metavar="FILE", help=help_text)
    help_text = "judge data sets at this period's close; at the last due one by default"
    parser.add_argument("--at", metavar="PERIOD", help=help_text)


def run(options: argparse.Namespace) -> Output:
    study = Deployment.load(options.study).study
    scales = _scales(options.scales)
    _check(study, options)
    place_table = known_places(study, options.truth, options.places)
    if place_table is not None:
        study = place_table.of_study(study)
    results = _evaluated(study, place_table, scales, options)
    text = "\n\n".join(report.text for report in results.values())
    if options.out is not None:
        with atomic_folder(options.out) as draft:
            paths = [path for name in results for path in results[name].write(name, draft)]
        text += "".join(f"\nwrote {options.out / path.name}" for path in paths)
    data = {name: report.data for name, report in results.items()}
    return Output(data if len(data) > 1 else next(iter(data.values())), text)


def _evaluated(
    study: Study,
    place_table: PlacesTable | None,
    scales: Sequence[str],
    options: argparse.Namespace,
) -> dict[str, Report]:
    """The reports by name. Raises UserError."""
    if options.out is not None and find_spec("matplotlib") is None:
        raise missing_extra("--out: figures need matplotlib", "plot")
    members: Members | None = None
    kinds.require_available(batch.kind for batch in study.batches or ())
    if study.groups is not None:
        roster = roster_from_files(study, roster_files(options))
        panel, members = true_panel_and_members(study, options.truth, layout(options), roster)
    elif place_table is not None and place_table.counts is not None:
        panel = {}
    else:
        panel = true_panel(study, options.truth, layout(options))
    results: dict[str, Report] = {}
    if study.releases:
        results |= _continual(study, panel, scales, options)
    if place_table is not None:
        sizes = known_sizes(study, place_table, panel, at=options.at, scales=scales)
        results["sizes"] = _judged_sizes(study, sizes, options)
    if any(batch.family in TABLE_JUDGES for batch in study.batches or ()):
        trials = TableTrials(
            study=study,
            known=panel,
            members=members,
            at=options.at,
            scales=scales,
            repetitions=options.repetitions or FITS,
            seed=options.seed,
        )
        results["quality"] = _judged_tables(trials)
    return results


def _scales(text: str | None) -> list[str]:
    factors = text.split(",") if text else []
    try:
        if any(Fraction(word) <= 0 for word in factors):
            raise UserError("--scales: give numbers above 0")
    except (ValueError, ZeroDivisionError):
        raise UserError("--scales: write numbers such as 0.2,1,10") from None
    return list(dict.fromkeys(factors))


def _check(study: Study, options: argparse.Namespace) -> None:
    """Raises UserError for contradictory options."""
    files = {"--groups": options.groups, "--members": options.members}
    options_given = [word for word, file in files.items() if file is not None]
    fewest = 2 if study.releases else 1
    if options.repetitions is not None and options.repetitions < fewest:
        raise UserError(f"--repetitions: give at least {fewest}")
    if options.seed < 0:
        raise UserError("--seed: give a number from 0 on")
    if options.at is not None and not study.batches:
        raise UserError("--at: goes with data sets, and the study has none")
    if options_given and not _of_groups(study):
        raise UserError(f"{options_given[0]}: goes with releases of groups, and the study has none")
    if options.at is not None and options.at not in study.periods.numbers:
        labels = study.periods.labels
        raise UserError(f"--at: '{options.at}' is none of the periods {labels[0]} to {labels[-1]}")
    if _of_groups(study) and None in files.values():
        raise UserError(
            "evaluate: the study releases groups of people: give --groups FILE --members FILE,"
            " and --group COL, as to 'stream-dp groups'"
        )


def _of_groups(study: Study) -> list[DataSetRelease]:
    """The releases of groups with their members."""
    return [batch for batch in study.batches or () if batch.family is Family.HOUSEHOLDS]


def _continual(
    study: Study, panel: Panel, scales: Sequence[str], options: argparse.Namespace
) -> dict[str, Report]:
    from stream_dp.evaluation.panels import repeat
    from stream_dp.evaluation.panels.panel_figures import write_panel_figures
    from stream_dp.evaluation.panels.panel_text import evaluation_text, sweep_text

    def report(result: Evaluation | Sweep, data: dict[str, object], text: str) -> Report:
        return Report(data, text, partial(write_panel_figures, result))

    stated = panel_errors(plan_study(study))
    repetitions = options.repetitions or REPETITIONS
    evaluation = repeat.evaluate_panels(study, panel, repetitions, seed=options.seed)
    of_certificates = {name: stated_errors(errors) for name, errors in stated.items()}
    data = {**evaluation.as_dict(), "stated_panel_errors": of_certificates}
    results = {"evaluation": report(evaluation, data, evaluation_text(evaluation, stated))}
    if scales:
        sweep = repeat.sweep(study, panel, scales, repetitions, seed=options.seed)
        results["sweep"] = report(sweep, sweep.as_dict(), sweep_text(sweep))
    return results


def _judged_tables(trials: TableTrials) -> Report:
    """A report for each release of people or of households."""
    from stream_dp.evaluation.tables.table_figures import write_quality_figures
    from stream_dp.evaluation.tables.table_text import reports_text

    reports = judged_tables(trials)
    figures = partial(write_quality_figures, reports.releases)
    return Report(reports.as_dict(), reports_text(reports), figures)


def _judged_sizes(
    study: Study, known_sizes: Sequence[KnownSizes], options: argparse.Namespace
) -> Report:
    """A report for each release of sizes."""
    from stream_dp.evaluation.sizes_trials import (
        SizesReport,
        SizesReports,
        evaluate_sizes,
        sizes_text,
    )

    repetitions, reports = options.repetitions or FITS, []
    for sizes in known_sizes:
        with tqdm(desc=sizes.release.name, disable=None, leave=False) as bar:
            progress = bar_progress(bar)
            errors = evaluate_sizes(
                sizes.leaves, sizes.plans, repetitions, seed=options.seed, progress=progress
            )
        reports.append(
            SizesReport(
                study=study.name,
                release=sizes.release.name,
                period=sizes.period,
                places=sum(sizes.total for sizes in sizes.leaves),
                people=sum(sizes.members for sizes in sizes.leaves),
                repetitions=repetitions,
                seed=options.seed,
                rhos={label: plan.rho for label, plan in sizes.plans.items()},
                errors=errors,
            )
        )
    result = SizesReports(tuple(reports))
    return Report(result.as_dict(), sizes_text(result))
