"""Checks of the journal against the study, the reports and the public log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Log, TopicInfo
from stream_dp.log.message import read_messages
from stream_dp.privacy.ledger import Ledger
from stream_dp.study import Study
from stream_dp.study.changes import changed_keys
from stream_dp.study.period_gate import gate_charges
from stream_dp.study.topics import RELEASES

from .gate_entries import gates
from .journal import Entry
from .reading_entries import check_reports

if TYPE_CHECKING:
    from stream_dp.planning.plan import Plan


def begun_plan(entries: Sequence[Entry], study: Study) -> Plan:
    """The plan of the study's beginning, with the stored design. Raises Inconsistent."""
    from stream_dp.planning.plan import Plan  # who only writes to a log needs no plan

    return Plan(first_declared(entries[0], study), entries[0].designs)


def first_declared(genesis: Entry, study: Study) -> Study:
    """The study with its first description and curator; nothing else may have changed.

    Raises Inconsistent with the keys that have changed otherwise.
    """
    first = genesis.declaration
    study = study.described(first)
    if study.hash != genesis.genesis.study_hash:
        keys = changed_keys(first, msgspec.json.decode(study.canonical()))
        raise Inconsistent(
            f"study: it has changed since its first record: {keys}; restore the study file, or"
            " start a new study with a new log"
        )
    return study


def check_journal(entries: Sequence[Entry], plan: Plan, reports: TopicInfo) -> Ledger:
    """The ledger with every charge of the journal.

    plan: of the study's beginning.

    Raises Inconsistent for a journal of another study, other reports or another plan.
    """
    first_declared(entries[0], plan.study)
    check_reports(entries, reports)
    ledger, drawn = plan.ledger(), gates(entries)
    for entry in entries[1:]:
        number = entry.gated or entry.number
        planned = () if entry.gated is None else gate_charges(plan.study, ledger, number)
        if entry.closes:
            planned = plan.charges(number)
            if plan.study.gate is not None and number not in drawn:
                raise Inconsistent(f"journal: period {number} was closed without its gate")
        if entry.charges != planned:
            raise Inconsistent(
                f"journal: period {number} was charged otherwise than the plan says; run the"
                " version of stream-dp that wrote it"
            )
        ledger = ledger.charge(*entry.charges)
    return ledger


def check_unpublished(public: Log) -> None:
    """Raises Inconsistent if the public log has messages beside an empty journal."""
    if next(read_messages(public, RELEASES, "public log"), None) is not None:
        raise Inconsistent(
            "journal: it is empty, but the public log is not: the confidential log is lost or not"
            " the right one; restore it, or begin a new study with new logs"
        )


def check_public(entries: Sequence[Entry], public: Sequence[str]) -> None:
    """Raises Inconsistent for public messages that the journal did not decide.

    public: the hashes of the public messages, in order.
    """
    decided = [digest for entry in entries for digest in entry.published]
    if len(public) > len(decided):
        raise Inconsistent(
            f"journal: it ends at public message {len(decided) - 1}, but the public log holds"
            f" {len(public) - 1}: an older journal was restored; bring back the newer one, for"
            " its noise must not be drawn again"
        )
    for index, (published, digest) in enumerate(zip(public, decided, strict=False)):
        if published != digest:
            raise Inconsistent(
                f"public log: message {index} is not the one that the journal decided; restore"
                " the public log from a copy, or find out who changed it"
            )
