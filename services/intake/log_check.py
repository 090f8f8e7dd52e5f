"""The check of both logs by a process that sends reports or closes periods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from stream_dp.log.log import Forbidden, Log, LogError, Missing, Unavailable
from stream_dp.log.message import read_chain
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS

from ..storage import journal, journal_checks
from ..storage.deployment import Deployment
from ..storage.journal import Entry
from ..storage.journal_checks import check_reports
from ..storage.log_guard import check_hazards, check_logs, check_partitions


def check_readable(deployment: Deployment, log: Log) -> None:
    """Checks that the releaser will read the reports and markers that are written now.

    Of a log that the sender has no right to read, the number of partitions alone is checked.

    Raises Inconsistent if the logs are not those of the journal, if partitions were added that the
    releaser does not read yet, or if the cluster deletes records; Unavailable.
    """
    entries, declared = list[Entry](), {REPORTS: deployment.run.partitions}
    hidden = False
    try:
        entries = journal.read_heads(log)
    except Forbidden:
        hidden = True
    except Missing:  # before the releaser's first start
        pass
    if entries:
        check_reports(entries, log.describe(REPORTS))
    check_partitions(log, declared, log.describe_all(declared))
    if hidden:
        return
    if not entries:
        with _if_permitted():
            deployment.check_unpublished()
        return
    with _if_permitted(), closing(deployment.public(readonly=True)) as public:
        _check_public(deployment, entries, log, public)
    with _if_permitted():
        check_hazards((log, {**declared, JOURNAL: 1}))


def _check_public(deployment: Deployment, entries: Sequence[Entry], log: Log, public: Log) -> None:
    """Raises Inconsistent if the public log is not the one that the journal decided."""
    sides = (log, dict[str, int]()), (public, {RELEASES: 1})
    check_logs(entries, sides, str(deployment.path))
    published = read_chain(public, RELEASES, "public log")
    journal_checks.check_public(entries, [message.hash for message in published])


@contextmanager
def _if_permitted() -> Iterator[None]:
    """Leaves out a check without rights for this user or before its topics exist."""
    try:
        yield
    except Unavailable:
        raise
    except LogError:
        pass
