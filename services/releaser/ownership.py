"""The journal in its owner's hands: where it ends, what is committed, and the age of the roles."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from stream_dp.log.base import Writer
from stream_dp.study import Study

from .. import journal
from .decision import ChainEnd

# Kafka forgets a role that was idle for some days: before a commit it is taken anew.
_FRESH = 86_400.0


class StaleRole(Exception):
    """The roles may be forgotten: take them anew before anything is committed."""


@dataclass
class OwnedJournal:
    """The journal as the one process sees it that may write to it. end: its last entry."""

    study: Study
    writer: Writer
    end: ChainEnd
    _used: float = field(default_factory=time.monotonic)

    def require_fresh(self) -> None:
        """Raises StaleRole before anything is decided."""
        if time.monotonic() - self._used > _FRESH:
            raise StaleRole

    def commit(self, end: ChainEnd) -> None:
        """Commits the last entry of the new end; it is durable when this returns."""
        self.writer.commit(journal.journal_records(end.entry.message, self.study))
        self.end = end

    def renew(self) -> None:
        """Notes that the roles were just used."""
        self._used = time.monotonic()
