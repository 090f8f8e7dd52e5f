"""Where a study runs: its file, its plan and its logs, as the commands need them."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log import Log, address, open_log
from stream_dp.log.base import Missing
from stream_dp.log.settings import settings_from_environment
from stream_dp.plan import Plan, plan_study
from stream_dp.release.published import TableFilter
from stream_dp.study import Run, Study
from stream_dp.studyfile import load_study

from . import journal
from .snapshots import Snapshots
from .topics import CLOCK, REPORTS


@dataclass(frozen=True)
class Deployment:
    """A study file, read and checked. What it names is relative to its folder."""

    study: Study
    run: Run
    path: Path

    @classmethod
    def load(cls, path: Path) -> Deployment:
        study, run = load_study(path)
        lines = []
        for key, url in (("log", run.log), ("public", run.public)):
            try:
                address(url)
            except UserError as error:
                lines += [f"{path}: run.{key}: {line}" for line in error.lines]
        if lines:
            raise UserError(lines)
        if run.log == run.public:
            raise UserError(
                f"{path}: run.public: is the same as run.log; analysts would read everything"
            )
        return cls(study, run, path)

    @property
    def base(self) -> Path:
        return self.path.parent

    @property
    def plan(self) -> Plan:
        return plan_study(self.study)

    def log(self, *, readonly: bool = False) -> Log:
        """The confidential log. Raises Inconsistent where a file that releases are of is gone."""
        kind, _, name = self.run.log.partition(":")
        public = self.run.public.partition(":")[0]
        if kind == public == "sqlite" and not (self.base / name).exists():
            self.check_unpublished()
        return open_log(
            self.run.log,
            self.base,
            readonly=readonly,
            kafka=self.run.kafka,
            insecure=self.run.insecure,
            replication=self.run.replication,
            timed=(REPORTS, CLOCK),
        )

    def check_unpublished(self) -> None:
        """That a confidential log is rightly empty. Raises Inconsistent."""
        with suppress(Missing), closing(self.public(readonly=True)) as log:
            journal.check_unpublished(log)

    def public(self, *, readonly: bool = False) -> Log:
        own = self.run.kafka_public
        return open_log(
            self.run.public,
            self.base,
            public=True,
            readonly=readonly,
            kafka=self.run.kafka if own is None else own,
            insecure=self.run.insecure,
            replication=self.run.replication,
        )

    @property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.run.snapshots or f"{self.study.name}-snapshots", self.base)


def open_public(source: str, keep: TableFilter) -> tuple[PublicLog, Deployment | None]:
    """What STUDY|PUBLIC names: its public log, and the study where a file was given.

    keep: the tables that are asked for.
    """
    if Path(source).suffix in {".db", ".sqlite"} and ":" not in source:
        raise UserError(f"{source}: name a public log as sqlite:{source}")
    named = ":" in source and not Path(source).exists()
    deployment = None if named else Deployment.load(Path(source))
    try:
        with closing(
            _public(source) if deployment is None else deployment.public(readonly=True)
        ) as log:
            return PublicLog(log, keep), deployment
    except Missing as error:
        raise UserError(f"public log: {error}: nothing is published there yet") from None


def _public(url: str) -> Log:
    kafka, insecure = settings_from_environment(Path())
    return open_log(url, Path(), public=True, readonly=True, kafka=kafka, insecure=insecure)
