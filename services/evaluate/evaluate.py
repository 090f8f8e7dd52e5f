"""`stream-dp evaluate`: errors of a study's mechanisms on known data. CONFIDENTIAL.

True sizes of places come from counts or from reports. The first line of a text says that it is
confidential.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from stream_dp.batch import kinds
from stream_dp.errors import UserError
from stream_dp.planning.panel_errors import panel_errors
from stream_dp.planning.plan import plan_study
from stream_dp.population.tables import TableLayout
from stream_dp.release.published_panels import stated_errors
from stream_dp.study import Study
from stream_dp.study.period_texts import require_period

from ..intake.accepted_readings import AcceptedReading
from ..intake.group_files import read_places, read_roster
from ..intake.group_tables import Members, PlacesTable
from ..intake.options import roster_tables
from ..intake.sending import KnownReports
from ..intake.table_judging import fault_advice, judge_tables, table_notices
from ..intake.true_panel import true_panel, true_panel_and_members
from ..process.command_output import WARNING, Output, printable
from ..storage.atomic_files import atomic_folder
from ..storage.deployment import Deployment
from .error_figures import write_panel_figures, write_quality_figures
from .panel_report import Evaluation, Sweep, evaluation_text, sweep_text
from .sizes_trials import judged_sizes, sizes_text
from .table_evaluations import TABLE_JUDGES, Panel, Trials, judged_tables
from .table_report import reports_text


def known_places(study: Study, truth: Path, place_file: Path | None) -> PlacesTable | None:
    """The table of places of an evaluation; None without places. Raises UserError.

    truth: the table of counts of a study with `counted = true`.
    place_file: the table of places of any other.
    """
    if study.places is None:
        if place_file is not None:
            raise UserError("--places: goes with sizes of places, and the study has none")
        return None
    if study.places.counted:
        if place_file is not None:
            raise UserError("--places: the study has a table of counts, which is TRUTH itself")
        return read_places(study, truth)
    if place_file is None:
        raise UserError("evaluate: the study has places; name their table with --places FILE")
    return read_places(study, place_file)


# By default; a data set is fitted in each repetition, once for each budget and baseline.
REPETITIONS, FITS = 200, 5


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
    members: Members | None = None
    kinds.require_available(batch.kind for batch in study.batches or ())
    if study.groups is not None:
        roster = read_roster(study, roster_tables(options))
        panel, members = true_panel_and_members(
            study, options.truth, _known_layout(study, options), roster
        )
    elif place_table is not None and place_table.counts is not None:
        panel = {}
    else:
        panel = true_panel(study, options.truth, _known_layout(study, options))
    results: dict[str, Report] = {}
    trials = Trials(
        study=study,
        known=panel,
        members=members,
        at=options.at,
        scales=scales,
        repetitions=options.repetitions or FITS,
        seed=options.seed,
    )
    if study.releases:
        results |= _continual(study, panel, scales, options)
    if place_table is not None:
        sizes = judged_sizes(trials, place_table)
        data = [report.as_dict() for report in sizes]
        several = {"confidential": True, "warning": WARNING, "releases": data}
        results["sizes"] = Report(data[0] if len(data) == 1 else several, sizes_text(sizes))
    if any(batch.family in TABLE_JUDGES for batch in study.batches or ()):
        tables = judged_tables(trials)
        several = {"confidential": True, "releases": [report.as_dict() for report in tables]}
        figures = partial(write_quality_figures, tables)
        results["quality"] = Report(several, reports_text(tables), figures)
    return results


def _known_layout(study: Study, options: argparse.Namespace) -> TableLayout:
    """The layout of TRUTH. Shows its reading, and judges its cells with the rules of `send`.

    Raises UserError if `send` would send nothing of it.
    """
    readings = AcceptedReading(options.reading, quiet=options.quiet or options.json)
    columns = readings.layout(study, options)
    judged = judge_tables(
        study,
        [options.truth],
        columns,
        known=KnownReports(),
        accept=readings.add,
        done="evaluated",
    )
    for path, judgement in judged.require_all().items():
        notices = table_notices(path.name, judgement, study)
        for line in [*fault_advice(judgement, study), *notices]:
            print(f"stream-dp: {printable(line)}", file=sys.stderr, flush=True)
    readings.keep()
    return columns


def _scales(text: str | None) -> list[str]:
    """The factors of the budgets, without repetition. Raises UserError."""
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
    has_groups = any(batch.needs_members for batch in study.batches or ())
    if options_given and not has_groups:
        raise UserError(f"{options_given[0]}: goes with releases of groups, and the study has none")
    if options.at is not None:
        options.at = require_period(study.periods, options.at, "--at:")
    if has_groups and None in files.values():
        raise UserError(
            "evaluate: the study releases groups of people: give --groups FILE --members FILE,"
            " and --group COL, as to 'stream-dp groups'"
        )


def _continual(
    study: Study, panel: Panel, scales: Sequence[str], options: argparse.Namespace
) -> dict[str, Report]:
    """The reports of panels: the evaluation and, with scales, the sweep over budgets."""
    from . import repeated_panels

    def report(result: Evaluation | Sweep, data: dict[str, object], text: str) -> Report:
        return Report(data, text, partial(write_panel_figures, result))

    stated = panel_errors(plan_study(study))
    repetitions = options.repetitions or REPETITIONS
    evaluation = repeated_panels.evaluate_panels(study, panel, repetitions, seed=options.seed)
    of_certificates = {name: stated_errors(errors) for name, errors in stated.items()}
    data = {**evaluation.as_dict(), "stated_panel_errors": of_certificates}
    results = {"evaluation": report(evaluation, data, evaluation_text(evaluation, stated))}
    if scales:
        sweep = repeated_panels.sweep(study, panel, scales, repetitions, seed=options.seed)
        results["sweep"] = report(sweep, sweep.as_dict(), sweep_text(sweep))
    return results
