"""The journal of the small study read, and written anew with other content."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec

from kit.panels import StudyFolder
from stream_dp.log.message import Message, build_message
from stream_dp.services.storage import journal
from stream_dp.services.storage.restored_logs import ROLE, Mark
from stream_dp.study.topics import DEAD_LETTERS, JOURNAL, RELEASES, REPORTS
from stream_dp.studyfile import load_study

CLOSED_PERIODS = 3  # periods that are published before a test of refusals begins


def contents(place: StudyFolder) -> list[Any]:
    """The records of every topic, and the names of the snapshots."""
    records = [place.rows(topic) for topic in (REPORTS, JOURNAL, RELEASES, DEAD_LETTERS)]
    return [*records, sorted(path.name for path in place.snapshots.iterdir())]


def rewrite(place: StudyFolder, change: Callable[[Message], Message | None]) -> None:
    """Write the journal anew with other content, its hashes and chain sound.

    change: the message that takes the place of another; None to leave it out.
    """
    study, _ = load_study(place.file)
    written: list[Message] = []
    for entry in place.entries():
        changed = change(entry.message)
        if changed is None:
            continue
        previous = written[-1].hash if written else "0" * 64
        written.append(build_message(len(written), previous, changed.head, changed.parts))
    with closing(sqlite3.connect(place.db)) as db, db:
        db.execute("DELETE FROM records WHERE topic = 'journal'")
    with place.log() as log:
        log.append(r for m in written for r in journal.journal_records(m, study))
        with log.own(ROLE) as writer:
            writer.mark(Mark.of(written[-1]).content)


def position_of(place: StudyFolder, topic: str, name: str) -> int:
    """The position of the first record of a topic whose id ends with this name."""
    for _, position, _, _, _, headers in place.rows(topic):
        if dict(msgspec.msgpack.decode(headers))["ce_id"].decode().endswith(name):
            return int(position)
    raise AssertionError
