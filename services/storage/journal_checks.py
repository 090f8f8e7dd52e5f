"""Checks of the journal against the study, the reports and the public log.

After some entries reports are read from more partitions, or from another topic. A study that has
changed since the journal's beginning is refused with the keys that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stream_dp import __version__
from stream_dp.errors import Inconsistent
from stream_dp.json_object import Json
from stream_dp.log.log import Log, TopicInfo
from stream_dp.log.message import Message, read_messages
from stream_dp.privacy.ledger import Ledger
from stream_dp.study import Study
from stream_dp.study.noisy_gate import gate_charges
from stream_dp.study.topics import RELEASES

from .journal import Entry, closes, gates, next_message, open_gate, reports_topic
from .journal_heads import ReadingHead, ReportsTopic

_MOST = 8  # keys that are listed by name
_LISTS = ("releases", "batches")
_SECTIONS = ("attributes", "groups", "places", *_LISTS)


_LOST = (
    "reports: this is another log than the one that the journal was begun on, or its topic was"
    " deleted and created again; run with the original one; if that is lost"
)


def check_declared(found: TopicInfo, declared: int) -> None:
    """Raises Inconsistent if the topic of reports has another number of partitions than declared.

    declared: run.partitions.
    """
    if found.partitions != declared:
        raise Inconsistent(
            f"reports: the topic has {found.partitions} partitions, and run.partitions says"
            f" {declared}; write partitions = {found.partitions}, and start stream-dp run again"
        )


def check_identity(entries: Sequence[Entry], found: TopicInfo) -> None:
    """Raises Inconsistent if the topic of reports is another one than the journal reads."""
    if reports_topic(entries).identity != found.identity:
        raise Inconsistent(f"{_LOST}: stream-dp run --moved reads this one from its beginning")


def check_reports(entries: Sequence[Entry], found: TopicInfo) -> None:
    """Raises Inconsistent if the journal reads another topic of reports, or fewer partitions."""
    check_identity(entries, found)
    check_growth(entries, found)
    topic = reports_topic(entries)
    if topic.partitions != found.partitions:
        raise Inconsistent(
            f"reports: the topic has {found.partitions} partitions, and the journal reads"
            f" {topic.partitions}: partitions were added; write partitions = {found.partitions} in"
            " [run] and start stream-dp run, which reads them from the open period on"
        )


def check_growth(entries: Sequence[Entry], found: TopicInfo) -> None:
    """Raises Inconsistent if partitions of the reports are gone, or were added without a rule.

    The partition of a key is its hash modulo the number of partitions, and a later partition wins
    if a person's reports are in two. So the number must be a multiple of the one before.
    """
    journalled, partitions = reports_topic(entries).partitions, found.partitions
    counts = f"reports: the topic has {partitions} partitions, and the journal reads {journalled}"
    if partitions < journalled:
        raise Inconsistent(f"{counts}; restore the topic, or a backup")
    if partitions % journalled:
        raise Inconsistent(
            f"{counts}: partitions were added, and {partitions} is no multiple of {journalled}, so"
            " a correction could lie before the report that it corrects; add partitions up to"
            f" {partitions + journalled - partitions % journalled}"
        )


def reading_entry(
    entries: Sequence[Entry], found: TopicInfo, *, moved: bool, kept: Callable[[], bool]
) -> Message | None:
    """Builds the entry for the found topic of reports; None if the journal reads this topic.

    Partitions that were added are read from their beginning, for the open period. So is another
    topic, whose reports for closed periods are rejected.

    moved: whether the operator states that another topic takes the place of the journal's.
    kept: tells whether the snapshot of the last close is there, without which the reports of
        closed periods are needed.

    Raises Inconsistent for another topic if the study cannot go on with it.
    """
    topic, last = reports_topic(entries), closes(entries)[-1]
    another = topic.identity != found.identity
    if not another and topic.partitions == found.partitions:
        return None
    if another:
        if not moved:
            check_identity(entries, found)
        if open_gate(entries) is not None or not kept():
            raise Inconsistent(
                f"{_LOST}: restore a backup, because a gate that is drawn, or a close without a"
                " snapshot, needs its reports"
            )
        begin = dict(found.first)
    else:
        check_growth(entries, found)
        begin = dict.fromkeys(range(found.partitions), 0) | last.next_begin
    head = ReadingHead(
        number=last.number,
        reports=ReportsTopic(found.identity, found.partitions),
        begin=begin,
        another=another or (last.reading is not None and last.reading.another),
        charges=[],
        public=[],
        code_version=__version__,
    )
    return next_message(entries[-1].message, head, [])


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


def changed_keys(first: Mapping[str, object], second: Mapping[str, object]) -> str:
    """The keys with different values, for example 'study.rho, releases.quarters.width'.

    first, second: declarations as `Study.canonical` writes them.
    """
    keys = list(_differing_keys(_as_in_file(first), _as_in_file(second), ""))
    if not keys:
        return "the order of its releases"
    further = f" and {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    return ", ".join(keys[:_MOST]) + further


def _as_in_file(declared: Mapping[str, Any]) -> Json:
    """The declaration by section of a study file, with releases by name."""
    head = {key: value for key, value in declared.items() if key not in _SECTIONS}
    periods = head.get("periods")
    if isinstance(periods, dict) and isinstance(periods.get("close"), dict):
        head["periods"] = {**periods, **periods["close"], "close": "schedule"}
    releases = [release for key in _LISTS for release in declared.get(key) or ()]
    return {
        "study": head,
        "attributes": declared.get("attributes", {}),
        "groups": declared.get("groups", {}),
        "places": declared.get("places", {}),
        "releases": {release["name"]: release for release in releases},
    }


def _differing_keys(first: object, second: object, path: str) -> Iterator[str]:
    """Yields the paths of keys with different values; for a missing table, the table's path."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in {**first, **second}:
            key_path = f"{path}.{key}" if path else key
            if key in first and key in second:
                yield from _differing_keys(first[key], second[key], key_path)
            else:
                yield key_path
    elif first != second:
        yield path
