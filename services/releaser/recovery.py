"""Recovery at a start: the journal, its unpublished entries, and the decided panels.

A first start begins the journal with entry 0. The decided panels are read column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Log, TopicInfo, Writer
from stream_dp.log.message import (
    START,
    Message,
    build_message,
    parts_in_records,
    read_parts,
    split_part,
)
from stream_dp.log.signing import SigningKey
from stream_dp.panel import Symbols
from stream_dp.planning.panel_errors import panel_errors
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import system_entropy
from stream_dp.release.published_panels import RELEASE_TYPE, STUDY_TYPE, read_panel
from stream_dp.release.study_plan import StudyPlan, plan_parts, study_plan
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES, REPORTS

from ..intake.group_tables import PlacesTable, Roster, bound_table
from ..storage import journal
from ..storage.deployment import bind
from ..storage.journal import DESIGN, Entry
from ..storage.journal_checks import check_public, check_unpublished
from ..storage.journal_heads import GenesisHead, ReportsTopic, entry_parts, study_records
from ..storage.log_guard import Topics, check_logs
from ..storage.restored_logs import check_mark, log_identities

NewColumns = tuple[tuple[str, ...], Callable[[], pa.Table]]  # their labels, and how to read them


class ReleasedPanel:
    """A release's panel, with the columns of a single period in memory.

    releases: the new columns of every period, in order.
    """

    def __init__(self, releases: Sequence[NewColumns]) -> None:
        self.periods = tuple(label for labels, _ in releases for label in labels)
        self._columns = [(read, label) for labels, read in releases for label in labels]
        self._read, self._table = releases[-1][1], releases[-1][1]()
        self.rows: int = self._table.num_rows

    def column(self, index: int) -> Symbols:
        """The codes of a column, (rows,). Raises Inconsistent."""
        read, label = self._columns[index]
        if read is not self._read:
            self._read, self._table = read, read()
        return np.asarray(self._table[label].to_numpy(), np.uint8)


def released_panels(
    study: Study, public: Log, chain: Sequence[Message], waiting: Sequence[Entry]
) -> dict[str, ReleasedPanel]:
    """The panels of a study's releases, by name, without the empty ones.

    chain: the public log's messages, which the journal decided.
    waiting: the entries after them, whose records the public log may not show yet.
    """
    releases: dict[str, list[NewColumns]] = {release.name: [] for release in study.releases}
    for message in chain:
        if message.head.get("type") == RELEASE_TYPE:
            columns = tuple(message.head["columns"])
            releases[message.head["release"]].append((columns, partial(_table, public, message)))
    for entry in waiting:
        records = entry.public_records()
        for name, several in releases.items():
            parts = parts_in_records(
                [r for r in records if (r.key or b"").endswith(f"/{name}".encode())]
            )
            if parts:
                table = read_panel(parts)
                several.append((tuple(table.column_names), partial(_same, table)))
    return {name: ReleasedPanel(several) for name, several in releases.items() if several}


def _table(public: Log, message: Message) -> pa.Table:
    return read_panel(read_parts(public, RELEASES, message, "public log").parts)


def _same(table: pa.Table) -> pa.Table:
    return table


def genesis(
    study: Study,
    plan: StudyPlan,
    design: bytes,
    reports: TopicInfo,
    key: bytes,
    simulated: bool,
    places: Mapping[str, str],
    groups: str | None = None,
    signer: SigningKey | None = None,
) -> Message:
    """Entry 0, with the study's design, and its declaration as the first public message.

    plan: the charges and the statements of all releases.
    design: the mechanisms' computations in floats (`Plan.design`), and simulated errors of panels.
    key: the key of the hash of ids.
    simulated: whether the noise is seeded.
    places: the identities of both logs, by `log` and `public`.
    groups: the hash of the table of groups or of places, if the study declares any.
    signer: signs the public messages, and is named in the first.
    """
    manifest = {
        "type": STUDY_TYPE,
        "study": msgspec.json.decode(study.canonical()),
        "study_hash": study.hash,
        "code_version": __version__,
        **({} if signer is None else {"signer": signer.public}),
    }
    declared = build_message(0, START, manifest, plan_parts(plan))
    public = study_records(declared, RELEASES, study, STUDY_TYPE, signer=signer)
    head = GenesisHead(
        number=0,
        study_hash=study.hash,
        reports=ReportsTopic(reports.identity, reports.partitions),
        key=key.hex(),
        simulated=simulated,
        cut=dict.fromkeys(range(reports.partitions), 0),
        marks=dict.fromkeys(range(reports.partitions), 0),
        charges=[],
        public=[declared.hash],
        code_version=__version__,
        groups=groups,
        signer=None if signer is None else signer.public,
        places=dict(places),
    )
    parts = [*split_part(DESIGN, design), *entry_parts(public, {})]
    return build_message(0, START, head.as_dict(), parts)


def make_topics(log: Log, public: Log, topics: Topics, file: str, *, moved: bool = False) -> None:
    """Creates missing topics, and checks the others.

    file, moved: see `check_logs`.

    Raises Inconsistent for other topics than the journal's, or settings by which decisions or
    reports are lost; UserError for other faults of topics.
    """
    sides = (log, topics[0]), (public, topics[1])
    for side, partitions in sides:
        side.create(partitions)
    check_logs(journal.read_heads(log), sides, file, moved=moved)
    if problems := [line for side, partitions in sides for line in side.faults(partitions)]:
        raise UserError(problems)


def begun_journal(
    plan: Plan,
    log: Log,
    public: Log,
    writer: Writer,
    *,
    simulated: bool,
    signer: SigningKey | None,
    at: Callable[[str], None],
) -> tuple[list[Entry], Roster | PlacesTable | None]:
    """The entries of the journal and the operator's table. Begins an empty journal.

    plan: its design goes into a new journal.
    writer: the one writer of the journal.
    simulated: whether the noise is seeded.
    signer: signs the public messages.
    at: called with `begun` after a new genesis.

    Raises Inconsistent for another study's log, an empty journal beside public messages, or a
    journal with the other kind of noise; UserError for a plan beyond its budget; and the errors of
    `bound_table`.
    """
    study = plan.study
    entries = journal.read_heads(log)
    groups = bound_table(log, study, entries[0].genesis.groups if entries else None)
    if not entries:
        check_unpublished(public)
        check_mark([], log)
        plan.check()
        bind(log, study)
        errors = panel_errors(plan)
        first = genesis(
            study,
            study_plan(study, plan.mechanisms, errors, plan.proved.least_variance),
            plan.design(errors),
            log.describe(REPORTS),
            key=system_entropy(32),
            simulated=simulated,
            groups=None if groups is None else groups.hash,
            places=log_identities(log, public),
            signer=signer,
        )
        writer.commit(journal.journal_records(first, study))
        entries = [Entry(first)]
        at("begun")
    bind(log, study, begun=True)
    if entries[0].genesis.simulated != simulated:
        raise Inconsistent("journal: a study with seeded noise and one without do not mix")
    return entries, groups


def split_published(
    public: Sequence[Message], entries: Sequence[Entry]
) -> tuple[list[Entry], list[Entry]]:
    """The entries with messages in the public log, and the entries to be published.

    public: the messages of the public log.

    Raises Inconsistent for a public log that the journal did not decide.
    """
    check_public(entries, [message.hash for message in public])
    count = len(public)
    for index, entry in enumerate(entries):
        if count == 0:
            return list(entries[:index]), list(entries[index:])
        if count < len(entry.published):
            raise Inconsistent("public log: it ends in the middle of a period's releases")
        count -= len(entry.published)
    return list(entries), []
