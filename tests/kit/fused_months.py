"""A study of four fused tables whose jobs end as they are told, and what it then states.

The fits take no time: round 0 of a transcript is a fit's own, and a table is not fitted at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from kit.panels import made_releaser, rows
from kit.studies import attribute
from kit.workers_study import workers_toml
from stream_dp.batch.people.people_table import People
from stream_dp.batch.synthesizer import FitContext, begun_rounds, chained_tables
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Record
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import Measurements
from stream_dp.release.certificate import Certificate
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser import decision, people_jobs
from stream_dp.services.releaser.decision import ChainEnd
from stream_dp.services.releaser.job_board import JobBoard
from stream_dp.services.releaser.worker import Worker
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.job_records import Job, Result, operator_word
from stream_dp.study.topics import REPORTS, TRANSCRIPTS

MONTHS = 4
# The end of a month's job. Jobs of "retry" are refused, and handed in again after all months.
ENDS = ("hand in", "abandon", "refuse", "retry")
ORDERS = tuple(product(ENDS, repeat=MONTHS))
_STATED = slice(33, None)  # of round 0: the tables that a fit descends from


@dataclass(frozen=True)
class _Unfitted:
    """The model of a table that was not fitted."""

    people: People
    title: str
    measurements = Measurements(("people",), np.array([1]), (Fraction(1),))
    notes: Any = None

    def sample(self, seed: int) -> People:
        return self.people


def _fit(people: People, release: Any, context: FitContext) -> _Unfitted:
    chained_tables(context, begun_rounds(context))
    return _Unfitted(people, release.data_set.mechanism, {})


def declared() -> str:
    """The study file: each table has another rho."""
    yes = attribute(["no", "yes"], missing="no")
    table = {"name": "people", "kind": "mixture", "attributes": ["sex", "work"], "every": 1}
    return workers_toml(
        rho=4,
        months=MONTHS,
        relation="replace_one",
        attributes={"sex": yes, "work": yes},
        releases=[{**table, "rho": 1, "first": "1/3"}],
    )


@dataclass
class FusedMonths:
    """A study in a folder, run in this process. refused: the hashes of results."""

    folder: Path
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.file.write_text(declared())

    @property
    def file(self) -> Path:
        return self.folder / "workers.toml"

    def ended(self, ends: Sequence[str]) -> None:
        """Closes the months; the job of each month ends as it is told."""
        with patch.object(people_jobs, "load_synthesizer", lambda kind: _fit):
            for number, end in enumerate(ends, 1):
                self._append(close_marker(number, 0))
                self._run()
                self._work()
                if end == "abandon":
                    self._say("abandon", number)
                self._run(refuses=end in {"refuse", "retry"})
            for number, end in enumerate(ends, 1):
                if end == "retry":
                    self._say("retry", number)
                    self._work()
                    self._run()

    def certificates(self) -> list[Certificate]:
        """Of a log that `verify` finds sound."""
        with closing(Deployment.load(self.file).public(readonly=True)) as log:
            public = PublicLog(log)
            public.verify()
            return [release.certificate for release in public.published]

    def ancestors(self) -> dict[int, set[int]]:
        """By month, the months that its job's round 0 states; empty for jobs without one."""
        stated = dict[int, set[int]]()
        for _, _, _, key, value, _ in rows(self.folder / "workers.db", TRANSCRIPTS):
            if key is not None and key.endswith(b"/0"):
                chain = msgspec.msgpack.decode(value[_STATED]) if value[_STATED] else []
                month = int(key.decode().split("-")[2])
                stated.setdefault(month, {number for number, _ in chain})
        return stated

    def _append(self, *records: Record) -> None:
        with closing(Deployment.load(self.file).log()) as log:
            log.create({REPORTS: 1})
            log.append(records)

    def _job(self, number: int) -> str:
        with closing(Deployment.load(self.file).log()) as log:
            board = JobBoard(log)
            board.refresh()
            return next(name for name, job in board.jobs.items() if job.period == number)

    def _say(self, word: str, number: int) -> None:
        self._append(operator_word(word, self._job(number)))

    def _work(self) -> None:
        setting = Deployment.load(self.file)
        with closing(setting.log()) as log:
            Worker(setting.study, log, setting.snapshots).run(until_idle=True)

    def _run(self, *, refuses: bool = False) -> None:
        decide_result = decision.decide_result

        def decide(plan: Plan, job: Job, result: Result, end: ChainEnd, **how: Any) -> ChainEnd:
            if refuses:
                self.refused.add(result.hash)
            if result.hash in self.refused:  # the same data are refused each time
                raise UserError("refused")
            return decide_result(plan, job, result, end, **how)

        setting = Deployment.load(self.file)
        with (
            patch.object(decision, "decide_result", decide),
            closing(setting.log()) as log,
            closing(setting.public()) as public,
        ):
            plan = Plan(setting.study)
            made_releaser(plan, log, public, setting.snapshots, file="F").run(until_idle=True)


def understatements(folder: Path, ends: Sequence[str]) -> list[str]:
    """What certificates leave out, a line each; empty if they state all that they descend from."""
    months = FusedMonths(folder)
    months.ended(ends)
    setting = Deployment.load(months.file)
    (table,) = setting.study.batches or ()
    charges = {n: one.rho for n, one in setting.study.schedule(table).items()}
    labels, stated = setting.study.periods.labels, months.ancestors()
    lines, counted = list[str](), set[int]()
    certificates = months.certificates()
    for certificate in certificates:
        chain = stated[certificate.number]
        counted |= {certificate.number, *chain}
        spent = sum(charges[n] for n in counted)
        if certificate.rho_spent != spent:
            lines.append(f"{certificate.period}: {certificate.rho_spent} instead of {spent}")
        if certificate.ancestors != {labels[n - 1]: charges[n] for n in chain}:
            lines.append(f"{certificate.period}: fused with {certificate.fused_with}")
    published = {n for n, end in enumerate(ends, 1) if end in {"hand in", "retry"}}
    if {certificate.number for certificate in certificates} != published:
        lines.append("other months are published")
    return lines
