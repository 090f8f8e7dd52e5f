"""`stream-dp evaluate`: errors of a study's mechanisms on known data. CONFIDENTIAL."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from stream_dp.batch import kinds
from stream_dp.batch.base import release_domain
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.people.known import Known
from stream_dp.batch.people.table import People, present_rows, study_people
from stream_dp.batch.workload.candidates import declared_workload
from stream_dp.errors import UserError
from stream_dp.study import DataSetRelease, PeopleRelease, SizesRelease, Study
from stream_dp.study.groups import BatchRelease

from ..deployment import Deployment
from ..files import writing_folder
from ..groups.members import Members
from ..groups.tables import RosterFiles, roster_from_files
from ..jobs.published import known_interactions, panels_of
from ..jobs.simulated import simulated_answers
from ..known_panel import known_panel, known_panel_and_members
from ..options import group_columns, layout, study_file, table_columns
from ..output import Output
from ..size_evaluations import KnownSizes, known_places, known_sizes

if TYPE_CHECKING:
    from stream_dp.evaluation.data_sets.households import FitProgress
    from stream_dp.evaluation.data_sets.report import DataSetReports
    from stream_dp.evaluation.panels.report import Evaluation, Sweep
    from stream_dp.evaluation.place_sizes import SizesReports

# By default; a data set is fitted in each repetition, once for each budget and baseline.
REPETITIONS, FITS = 200, 5
Panel = Mapping[str, NDArray[np.unsignedinteger]]
R = TypeVar("R", bound=DataSetRelease)


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("truth", type=Path, metavar="TRUTH")
    words = "runs of each mechanism; 200 by default, 5 of batch releases"
    parser.add_argument("--repetitions", type=int, metavar="R", help=words)
    parser.add_argument("--scales", metavar="X,...", help="repeat it with every rho times X")
    parser.add_argument(
        "--compare", action="store_true", help="every form of each release against the paper's"
    )
    parser.add_argument("--simulated", action="store_true", help="of --compare: TRUTH is simulated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="DIR", help="for figures, table and JSON")
    table_columns(parser)
    words = "where the study releases groups with their members"
    groups = parser.add_argument_group("groups", words)
    groups.add_argument("--groups", type=Path, metavar="FILE", help="a row for each group")
    groups.add_argument(
        "--members", type=Path, metavar="FILE", help="a row for each member, who is in TRUTH"
    )
    group_columns(groups, "--members")
    words = "table of places, as to 'stream-dp places'; not with a table of counts, which is TRUTH"
    parser.add_argument("--places", type=Path, metavar="FILE", help=words)
    words = "judge data sets at this period's close; at the last due one by default"
    parser.add_argument("--at", metavar="PERIOD", help=words)


def run(options: argparse.Namespace) -> Output:
    study = Deployment.load(options.study).study
    scales = _scales(options.scales)
    _check(study, options)
    places = known_places(study, options.truth, options.places)
    if places is not None:
        study = places.of_study(study)
    if options.compare:
        return _compared(study, options)
    if options.out is not None and find_spec("matplotlib") is None:
        raise UserError("--out: figures need matplotlib; pip install 'stream-dp[plot]'")
    members: Members | None = None
    kinds.require_available(batch.kind for batch in study.batches or ())
    if study.groups is not None:
        files = RosterFiles(
            groups=options.groups,
            members=options.members,
            key=options.group,
            member_key=options.member_group or options.group,
            person=options.person,
        )
        roster = roster_from_files(study, files)
        known, members = known_panel_and_members(study, options.truth, layout(options), roster)
    elif places is not None and places.counts is not None:
        known = {}
    else:
        known = known_panel(study, options.truth, layout(options))
    results: dict[str, Any] = {}
    if study.releases:
        results |= _continual(study, known, scales, options)
    if places is not None:
        sizes = known_sizes(study, places, known, at=options.at, scales=scales)
        results["sizes"] = _judged_sizes(study, sizes, options)
    if any(not isinstance(batch, SizesRelease) for batch in study.batches or ()):
        results["quality"] = _judged(study, known, members, scales=scales, options=options)
    text = "\n\n".join(_text(result) for result in results.values())
    if options.out is not None:
        with writing_folder(options.out) as draft:
            names = [path.name for name in results for path in _write(name, results[name], draft)]
        text += _wrote(options.out, names)
    data = {name: result.as_dict() for name, result in results.items()}
    return Output(data if len(data) > 1 else next(iter(data.values())), text)


def _scales(text: str | None) -> list[str]:
    words = text.split(",") if text else []
    try:
        if any(Fraction(word) <= 0 for word in words):
            raise UserError("--scales: give numbers above 0")
    except (ValueError, ZeroDivisionError):
        raise UserError("--scales: write numbers such as 0.2,1,10") from None
    return list(dict.fromkeys(words))


def _check(study: Study, options: argparse.Namespace) -> None:
    """Raises UserError for options that contradict each other or the study."""
    files = {"--groups": options.groups, "--members": options.members}
    words = [word for word, file in files.items() if file is not None]
    least = 2 if study.releases or options.compare else 1
    if options.repetitions is not None and options.repetitions < least:
        raise UserError(f"--repetitions: give at least {least}")
    if options.seed < 0:
        raise UserError("--seed: give a number from 0 on")
    if options.simulated and not options.compare:
        raise UserError("--simulated: goes with --compare")
    if options.compare and options.scales:
        raise UserError("--scales: goes with an evaluation, not with --compare")
    if options.compare and not study.releases:
        raise UserError("--compare: is about windows and totals, and the study releases none")
    if options.at is not None and options.compare:
        raise UserError("--at: goes with an evaluation, not with --compare")
    if options.at is not None and not study.batches:
        raise UserError("--at: goes with data sets, and the study has none")
    if words and not _of_groups(study):
        raise UserError(f"{words[0]}: goes with releases of groups, and the study has none")
    if words and options.compare:
        raise UserError(f"{words[0]}: goes with an evaluation, not with --compare")
    if options.at is not None and options.at not in study.periods.numbers:
        labels = study.periods.labels
        raise UserError(f"--at: '{options.at}' is none of the periods {labels[0]} to {labels[-1]}")
    if _of_groups(study) and not options.compare and None in files.values():
        raise UserError(
            "evaluate: the study releases groups of people: give --groups FILE --members FILE,"
            " and --group COL, as to 'stream-dp groups'"
        )


def _of_groups(study: Study) -> list[BatchRelease]:
    """The releases of groups with their members."""
    return [batch for batch in study.batches or () if isinstance(batch, BatchRelease)]


def _continual(
    study: Study, known: Panel, scales: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    from stream_dp.evaluation.panels import repeat

    repetitions = options.repetitions or REPETITIONS
    evaluation = repeat.evaluate_panels(study, known, repetitions, seed=options.seed)
    results: dict[str, Any] = {"evaluation": evaluation}
    if scales:
        results["sweep"] = repeat.sweep(study, known, scales, repetitions, seed=options.seed)
    return results


def _judged(
    study: Study,
    known: Panel,
    members: Members | None,
    *,
    scales: Sequence[str],
    options: argparse.Namespace,
) -> DataSetReports:
    """A report for each batch release."""
    from stream_dp.evaluation.data_sets import households, people
    from stream_dp.evaluation.data_sets.report import (
        DataSetReport,
        DataSetReports,
        Score,
        budget_label,
    )

    reports = []
    repetitions, seed = options.repetitions or FITS, options.seed
    for release in study.batches or ():
        if isinstance(release, SizesRelease):
            continue
        label = options.at or _last_due(study, release)
        number = study.periods.numbers[label]
        rhos = [release.rho * Fraction(scale) for scale in scales or ["1"]]
        truth: Hierarchy | People
        scores, panels = list[Score](), list[str]()
        with tqdm(desc=release.name, disable=None, leave=False) as bar:
            progress = _bar_progress(bar)
            if isinstance(release, PeopleRelease):
                truth = people_table(study, release, known=known, number=number)
                panels = [panel.name for panel in panels_of(study, release)]
                qualities, scores = people.evaluate_people(
                    truth,
                    _scaled(release, rhos),
                    repetitions,
                    seed=seed,
                    progress=progress,
                    known=partial(_simulated, study, release, number, known),
                )
            else:
                assert members is not None  # the study declares groups
                truth = hierarchy(study, release, known=known, members=members, number=number)
                declared_workload(truth.domain, release)  # refuses what is too large
                qualities = households.evaluate_data_sets(
                    truth, _scaled(release, rhos), repetitions, seed=seed, progress=progress
                )
        report = DataSetReport(
            study=study.name,
            release=release.name,
            kind=release.kind,
            period=label,
            groups=truth.G if isinstance(truth, Hierarchy) else 0,
            people=truth.N,
            repetitions=repetitions,
            seed=seed,
            rhos={budget_label(rho): rho for rho in rhos},
            qualities=tuple(qualities),
            scores=tuple(scores),
            panels=tuple(panels),
        )
        reports.append(report)
    return DataSetReports(tuple(reports))


def _judged_sizes(
    study: Study, known: Sequence[KnownSizes], options: argparse.Namespace
) -> SizesReports:
    """A report for each release of sizes."""
    from stream_dp.evaluation.place_sizes import SizesReport, SizesReports, evaluate_sizes

    repetitions, reports = options.repetitions or FITS, []
    for one in known:
        with tqdm(desc=one.release.name, disable=None, leave=False) as bar:
            progress = _bar_progress(bar)
            errors = evaluate_sizes(
                one.leaves, one.plans, repetitions, seed=options.seed, progress=progress
            )
        reports.append(
            SizesReport(
                study=study.name,
                release=one.release.name,
                period=one.period,
                places=sum(sizes.total for sizes in one.leaves),
                people=sum(sizes.members for sizes in one.leaves),
                repetitions=repetitions,
                seed=options.seed,
                rhos={label: plan.rho for label, plan in one.plans.items()},
                errors=errors,
            )
        )
    return SizesReports(tuple(reports))


def _scaled(release: R, rhos: Sequence[Fraction]) -> list[tuple[str, R]]:
    """The release at each budget, with the budget's label."""
    from stream_dp.evaluation.data_sets.report import budget_label

    return [(budget_label(rho), release.model_copy(update={"rho": rho})) for rho in rhos]


def _bar_progress(bar: Any) -> FitProgress:
    """Shows the rounds of a fit on a bar."""

    def show(subject: str, done: int, rounds: int) -> None:
        bar.set_description(subject, refresh=False)
        bar.total, bar.n = rounds, done
        bar.refresh()

    return show


def _last_due(study: Study, release: DataSetRelease) -> str:
    numbers = range(1, study.periods.count + 1)
    return study.periods.labels[max(n for n in numbers if release in study.due(n)) - 1]


def _simulated(
    study: Study, release: PeopleRelease, number: int, panel: Panel, seed: int
) -> tuple[Known, ...]:
    """What panels would have published of the release's columns, with simulated noise."""
    answers = simulated_answers(study, release, number, panel, seed)
    return known_interactions(study, release, number, answers)


def hierarchy(
    study: Study, release: BatchRelease, known: Panel, members: Members, number: int
) -> Hierarchy:
    """Groups and members as a release measures them at the close of a period.

    known: by attribute, symbols (people, periods).
    number: the period, from 1.
    """
    people = members.people([known[name][:, number - 1] for name in release.attributes])
    return Hierarchy(release_domain(study, release), members.groups, people, members.group_of)


def people_table(study: Study, release: PeopleRelease, known: Panel, number: int) -> People:
    """People as a release measures them at the close of a period; see `hierarchy`."""
    symbols = {a.column: known[a.attribute][:, number - 1 - a.ago] for a in release.answers}
    return People.of_answers(study_people(study, release), present_rows(study, release, symbols))


def _compared(study: Study, options: argparse.Namespace) -> Output:
    from stream_dp.evaluation.panels.compare import compare
    from stream_dp.evaluation.panels.comparison_text import comparison_text

    comparison = compare(
        study,
        known_panel(study, options.truth, layout(options)),
        options.repetitions or REPETITIONS,
        seed=options.seed,
        data=options.truth.name,
        simulated=options.simulated,
    )
    data, text = comparison.as_dict(), comparison_text(comparison)
    if options.out is not None:
        with writing_folder(options.out) as draft:
            written = _write_report("comparison", text, data, draft)
        text += _wrote(options.out, [path.name for path in written])
    return Output(data, text)


def _text(result: Evaluation | Sweep | DataSetReports | SizesReports) -> str:
    from stream_dp.evaluation.data_sets.report import DataSetReports
    from stream_dp.evaluation.data_sets.text import reports_text
    from stream_dp.evaluation.panels.text import panels_text
    from stream_dp.evaluation.place_sizes import SizesReports, sizes_text

    if isinstance(result, SizesReports):
        return sizes_text(result)
    return reports_text(result) if isinstance(result, DataSetReports) else panels_text(result)


def _wrote(out: Path, names: Sequence[str]) -> str:
    """A line for each file that was written to a folder."""
    return "".join(f"\nwrote {out / name}" for name in names)


def _write(name: str, result: Any, folder: Path) -> list[Path]:
    """Writes a result's text, numbers and figures."""
    from stream_dp.evaluation.data_sets import figures as quality_figures
    from stream_dp.evaluation.data_sets.report import DataSetReports
    from stream_dp.evaluation.panels import figures
    from stream_dp.evaluation.place_sizes import SizesReports

    written = _write_report(name, _text(result), result.as_dict(), folder)
    if isinstance(result, SizesReports):
        return written
    if isinstance(result, DataSetReports):
        return [*written, *quality_figures.write_quality_figures(result.releases, folder)]
    return [*written, *figures.write_panel_figures(result, folder)]


def _write_report(name: str, text: str, data: Any, folder: Path) -> list[Path]:
    """Writes a text and numbers as JSON."""
    written = [folder / f"{name}.{form}" for form in ("txt", "json")]
    for path, content in zip(written, (text + "\n", json.dumps(data, indent=1)), strict=True):
        path.write_text(content)
    return written
