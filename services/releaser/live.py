"""What a running releaser owns, and the end of its journal: commits, and results of batch jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_dp.log.base import Writer
from stream_dp.study import Study

from .. import journal
from ..jobs.records import Job, Result
from . import results
from .decision import ChainEnd
from .jobs import Jobs
from .publishing import Publisher

# Kafka forgets a role that was idle for some days: before a commit it is taken anew.
_FRESH = 86_400.0


class StaleRole(Exception):
    """The roles may be forgotten: take them anew before anything is committed."""


@dataclass
class Live:
    """tail: the last entry. jobs: None without batch releases."""

    study: Study
    simulated: bool
    writer: Writer
    publisher: Publisher
    tail: ChainEnd
    at: Callable[[str], None]
    jobs: Jobs | None = None
    _began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raises StaleRole before anything is decided."""
        if time.monotonic() - self._began > _FRESH:
            raise StaleRole

    def commit(self, tail: ChainEnd) -> None:
        """The decision: durable in the journal when this returns."""
        self.writer.commit(journal.journal_records(tail.entry.message, self.study))
        self.tail = tail

    def fresh(self) -> None:
        """The roles were just used."""
        self._began = time.monotonic()

    def settle(self) -> None:
        """Take the results of batch jobs that are there: decide each, then publish it.

        Everything before it is published, so its period's own time is past.
        """
        if self.jobs is None:
            return
        self.jobs.look()

        def take(job: Job, result: Result) -> ChainEnd:
            return results.result_entry(self.study, job, result, self.tail, self.simulated)

        while (found := self.jobs.finished(take)) is not None:
            job, tail = found
            self.check()
            self.at("result-commit")
            self.commit(tail)
            self.at("result-committed")
            self.publisher.publish(tail.entry, until_idle=False)
            self.fresh()
            self.jobs.settled(job)
            self.at("result-cleaned")
