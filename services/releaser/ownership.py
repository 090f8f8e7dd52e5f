"""The journal as its one writer sees it: its end, commits to it, and the age of the roles."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from stream_dp.log.log import Writer
from stream_dp.study import Study

from ..journal import journal
from ..storage.restored_logs import Mark
from .decision import ChainEnd

# Kafka forgets a role that was idle for some days; older ones are renewed before a commit.
_FRESH = 86_400.0  # seconds


class StaleRole(Exception):
    """Kafka may have forgotten the roles: they must be renewed before a commit."""


@dataclass
class OwnedJournal:
    """The journal of the process that may write to it. end: the end of its chain."""

    study: Study
    writer: Writer
    end: ChainEnd
    _used: float = field(default_factory=time.monotonic)

    def require_fresh(self) -> None:
        """Raises StaleRole where the roles were not used for a day."""
        if time.monotonic() - self._used > _FRESH:
            raise StaleRole

    def commit(self, end: ChainEnd) -> None:
        """Commits the entry of a new end, which is durable when this returns."""
        self.writer.commit(journal.journal_records(end.entry.message, self.study))
        self.writer.mark(Mark.of(end.entry.message).content)
        self.end = end

    def renew(self) -> None:
        """Notes that the roles were used now."""
        self._used = time.monotonic()
