"""Journal entries after which reports are read from more partitions, or from another topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_dp import __version__
from stream_dp.errors import Inconsistent
from stream_dp.log.log import TopicInfo
from stream_dp.log.message import Message

from .gate_entries import open_gate
from .journal import Entry, closes, next_message, reports_topic
from .journal_heads import ReadingHead, ReportsTopic

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
    before, after = reports_topic(entries).partitions, found.partitions
    counts = f"reports: the topic has {after} partitions, and the journal reads {before}"
    if after < before:
        raise Inconsistent(f"{counts}; restore the topic, or a backup")
    if after % before:
        raise Inconsistent(
            f"{counts}: partitions were added, and {after} is no multiple of {before}, so a"
            " correction could lie before the report that it corrects; add partitions up to"
            f" {after + before - after % before}"
        )


def reading_entry(
    entries: Sequence[Entry], found: TopicInfo, *, moved: bool, kept: Callable[[], bool]
) -> Message | None:
    """Builds the entry with the topic of reports that is found; None if the journal reads it.

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
