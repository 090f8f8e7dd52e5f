"""`stream-dp rehearse`: a whole study on a copy in memory, with simulated noise. CONFIDENTIAL.

Nothing is written to the study's logs, and nothing is charged. The noise is seeded, so that the
rehearsal's releases protect nobody.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory

import pyarrow.csv

from stream_dp.batch.kinds import require_available
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Record, following
from stream_dp.log.memory import MemoryLog
from stream_dp.planning.plan import plan_study
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.tables import Judgement
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Study
from stream_dp.study.periods import Periods
from stream_dp.study.topics import CLOCK, DEAD_LETTERS, REPORTS

from ..intake.accepted_readings import AcceptedReading
from ..intake.dead_letters import (
    Placing,
    Rejections,
    cells_of,
    no_rejections,
    rejections_data,
    rejections_text,
    source_header,
    totals,
)
from ..intake.group_files import RosterTables, read_places, read_roster
from ..intake.group_tables import PlacesTable, commit_table
from ..intake.markers import close_marker
from ..intake.options import roster_tables
from ..intake.sending import KnownReports, encoded_reports, require_plain_reports
from ..intake.table_judging import fault_advice, judge_tables, table_notices
from ..monitor.study_page import study_page
from ..process.command_output import Output
from ..releaser.releaser import Releaser
from ..releaser.releaser_facts import Context
from ..releaser.study_in_memory import fit_data_sets
from ..storage import journal
from ..storage.atomic_files import atomic_folder
from ..storage.deployment import Deployment
from ..storage.journal import is_held
from ..storage.snapshots import Snapshots

_QUANTILE = NormalDist().inv_cdf(0.975)  # of 95% intervals
_MOST_LINES = 12  # of a release's estimates; the files of --out have them all
_DAY = 86_400.0
_WARNING = (
    "CONFIDENTIAL: a rehearsal on real reports with simulated noise; no release, and nobody is"
    " protected by it"
)


@dataclass
class _Rehearsal:
    """The result of a rehearsal.

    public: the rehearsal's public log.
    judgements: by file, the judgement before sending.
    rejected: the cells that the releaser rejected.
    seconds: by step, the seconds taken.
    left_out: the reason why the data sets of groups were not fitted; None if they were fitted.
    """

    public: PublicLog
    judgements: dict[TableSource, Judgement]
    rejected: Rejections
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: str | None = None


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    require_plain_reports(deployment)
    if options.seed < 0:
        raise UserError("--seed: write a whole number, 0 or more")
    rehearsal = _rehearse(deployment, options)
    text = _text(rehearsal, deployment.study)
    if options.out is not None:
        _write(rehearsal, text, options.out)
        text += f"\nwritten to {options.out}"
    return Output(_data(rehearsal, options.out), text)


def _rehearse(deployment: Deployment, options: argparse.Namespace) -> _Rehearsal:
    """Judges the files, sends them to a log in memory, and closes every period there."""
    study, seconds = deployment.study, dict[str, float]()
    if study.periods.open:
        raise UserError("rehearse: this study never ends; declare a number as periods.count")
    roster, place_table = _declared_roster(study, options), _places(study, options)
    keyed_study = study if place_table is None else place_table.of_study(study)
    readings = AcceptedReading(options.reading, quiet=options.quiet or options.json)
    columns = readings.layout(keyed_study, options)
    left_out = _unavailable(study)
    with _timed(seconds, "judging the files"):
        judged_tables = judge_tables(
            keyed_study,
            options.files,
            columns,
            known=KnownReports(),
            accept=readings.add,
            done="rehearsed",
        )
        judgements = judged_tables.require_all()
    readings.keep()
    # Reports and markers are there long before any close, and the releaser's time after them all.
    shift, sending = _shift(study.periods), True
    log = MemoryLog(timed=(REPORTS, CLOCK), clock=lambda: _DAY if sending else time.time() + shift)
    public, noise = MemoryLog(), SeededNoise(options.seed)
    with TemporaryDirectory(prefix="stream-dp-") as name:
        if roster is not None:
            with _timed(seconds, "reading groups"):
                commit_table(log, study, read_roster(study, roster))
        if place_table is not None:
            commit_table(log, study, place_table)
        log.create({REPORTS: 1})
        with _timed(seconds, "sending"):
            for path in options.files:
                source = source_header(path)
                for batch in encoded_reports(path, keyed_study, columns):
                    log.append(Record(REPORTS, value, key.encode(), source) for key, value in batch)
            log.append([close_marker(study.periods.count, 0)])
        sending = False
        snapshots = Snapshots("snapshots", Path(name))
        releaser = Releaser(
            plan_study(deployment.study),
            log,
            public,
            snapshots,
            Context.of(deployment.study, clock=lambda: time.time() + shift),
            source=noise,
        )
        with _timed(seconds, "closing, deciding and publishing every period"):
            done = _run(releaser, log)
        if not done and left_out is None:
            with _timed(seconds, "data sets"):
                fit_data_sets(
                    study=study, log=log, snapshots=snapshots, noise=noise, caller="rehearse"
                )
                _run(releaser, log)
    rejected, placing = no_rejections(), Placing(keyed_study, None)
    for letter in following(log, DEAD_LETTERS, dict(log.describe(DEAD_LETTERS).first)):
        for reason, counts in placing.places(letter, cells_of(letter)):
            rejected[reason] += counts
    return _Rehearsal(
        public=PublicLog(public),
        judgements=judgements,
        rejected=rejected,
        seconds=seconds,
        left_out=left_out,
    )


def _run(releaser: Releaser, log: MemoryLog) -> bool:
    """Runs until there is nothing to do; whether the horizon has ended. Closes held periods."""
    while not (done := releaser.run(until_idle=True)):
        entries = journal.read_heads(log)
        if not is_held(entries):
            break
        log.append([close_marker(entries[-1].number + 1, 0, despite_gate=True)])
    return done


def _declared_roster(study: Study, options: argparse.Namespace) -> RosterTables | None:
    """The tables of groups. Raises UserError if the tables are missing or not declared."""
    if study.groups is None:
        if options.groups is not None or options.members is not None:
            raise UserError("rehearse: the study has no data sets of groups; leave the tables out")
        return None
    if options.groups is None or options.members is None:
        raise UserError(
            "rehearse: the study has data sets of groups; name their tables with --groups and"
            " --members"
        )
    return roster_tables(options)


def _places(study: Study, options: argparse.Namespace) -> PlacesTable | None:
    """The table of places. Raises UserError if the table is missing or not declared."""
    if (study.places is None) != (options.places is None):
        raise UserError(
            "rehearse: the study declares places; name their table with --places"
            if options.places is None
            else "rehearse: the study declares no places; leave --places out"
        )
    return None if options.places is None else read_places(study, options.places)


def _unavailable(study: Study) -> str | None:
    """The reason why this installation cannot fit data sets of groups; None if it can."""
    try:
        require_available(batch.kind for batch in study.batches or ())
    except UserError as error:
        return "; ".join(error.lines)
    return None


def _shift(periods: Periods) -> float:
    """The seconds to add to the clock, after which every period and delay has ended."""
    last = periods.release_time(periods.count)
    return _DAY if last is None else max(0.0, last - time.time()) + _DAY


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[step] = time.monotonic() - start


def _held(public: PublicLog) -> list[str]:
    """The periods with releases that the gate has held."""
    certificates = (release.certificate for release in public.published)
    held_periods = (c.period for c in certificates if c.gate is not None and c.gate.held)
    return list(dict.fromkeys(held_periods))


def _text(rehearsal: _Rehearsal, study: Study) -> str:
    """The outcome for the operator: faults of the files, rejections, estimates, and times."""
    public = rehearsal.public
    lines = [_WARNING]
    for path, judgement in rehearsal.judgements.items():
        lines.append(f"{path}: {judgement.cells} cells")
        lines += [
            f"  column {column}: {fault.cells} cells, {reason}, first in row {fault.first_row}"
            for (column, reason), fault in judgement.faults.items()
        ]
        lines += [f"  {line}" for line in fault_advice(judgement, study)]
        lines += [f"  {line}" for line in table_notices(path.name, judgement, study)]
    lines += rejections_text(rehearsal.rejected) or ["nothing would be rejected"]
    for name in _panels(public):
        last = public.releases_of(name)[-1].certificate
        lines.append(
            f"{name} at {last.period}: {last.rows} synthetic rows; estimates with 95% intervals:"
        )
        table = public.releases_of(name)[-1].estimates
        for row in table.slice(0, _MOST_LINES).to_pylist():
            half = _QUANTILE * row["standard_error"]
            lines.append(f"  {row['query']}: {row['value']:.6g} +- {half:.3g}")
        if table.num_rows > _MOST_LINES:
            lines.append(f"  and {table.num_rows - _MOST_LINES} more")
    for release in public.published:
        if release.certificate.release not in _panels(public):
            lines.append(
                f"{release.certificate.release} at {release.certificate.period}: a data set"
            )
    if held_periods := _held(public):
        lines.append(f"the gate holds {', '.join(held_periods)} for the operator")
    lines += [f"verified: {line}" for line in public.verify()]
    if rehearsal.left_out is not None:
        lines.append(f"data sets of groups are left out: {rehearsal.left_out}")
    lines += [f"{seconds:9.2f} s  {step}" for step, seconds in rehearsal.seconds.items()]
    return "\n".join(lines)


def _panels(public: PublicLog) -> list[str]:
    return [release.name for release in public.study.releases]


def _data(rehearsal: _Rehearsal, out: Path | None) -> dict[str, object]:
    return {
        "confidential": True,
        "simulated": True,
        "files": {
            str(path): {
                "cells": judgement.cells,
                "faults": [
                    {
                        "column": column,
                        "reason": reason,
                        "cells": fault.cells,
                        "first_row": fault.first_row,
                    }
                    for (column, reason), fault in judgement.faults.items()
                ],
            }
            for path, judgement in rehearsal.judgements.items()
        },
        "rejected": totals(rehearsal.rejected),
        "cells": rejections_data(rehearsal.rejected),
        "releases": [
            {"release": r.certificate.release, "period": r.certificate.period}
            for r in rehearsal.public.published
        ],
        "held": _held(rehearsal.public),
        "left_out": rehearsal.left_out,
        "seconds": rehearsal.seconds,
        "out": None if out is None else str(out),
    }


def _write(rehearsal: _Rehearsal, text: str, out: Path) -> None:
    """Writes the text, the page, and each release's panel and estimates. Raises UserError."""
    public = rehearsal.public
    with atomic_folder(out) as folder:
        for name in _panels(public):
            pyarrow.csv.write_csv(
                public.estimates(name), folder / f"{name}-rehearsed-estimates.csv"
            )
            pyarrow.csv.write_csv(
                public.panel(name).table(), folder / f"{name}-rehearsed-panel.csv"
            )
        (folder / "rehearsal.html").write_text(study_page(public, _WARNING), encoding="utf-8")
        (folder / "rehearsal.txt").write_text(text + "\n", encoding="utf-8")
