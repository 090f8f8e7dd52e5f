"""The journal: the releaser's confidential record of decisions, a chain of messages.

Entry 0 (genesis) binds the study to its input and holds the key of the hash of ids; every other
entry closes one period, takes the result of a batch job that a close began, or notes in which
files the journal goes on. An entry holds the
exact records to be published, so that publishing, at once or after a crash, only copies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec

from stream_dp import __version__
from stream_dp.errors import Inconsistent
from stream_dp.log.base import Log, Positions, Record, TopicInfo
from stream_dp.log.message import (
    START,
    Message,
    build_message,
    message_records,
    read_messages,
    split_part,
)
from stream_dp.plan import Plan
from stream_dp.privacy.ledger import Charge, Ledger
from stream_dp.release.panels import STUDY_TYPE, TOPIC
from stream_dp.study import Study
from stream_dp.study.changes import changed_keys

from .jobs.records import Job
from .topics import JOURNAL

GENESIS, CLOSE, RESULT, PLACED = "genesis", "close", "result", "placed"


@dataclass(frozen=True)
class Entry:
    """A journal entry.

    number: of the period that it closes, or whose job it is about, or that was closed last; 0 for
    genesis.
    """

    message: Message

    @property
    def closes(self) -> bool:
        """Whether it closes a period, as genesis does for number 0."""
        return self.message.head["type"] in {GENESIS, CLOSE}

    @property
    def places(self) -> dict[str, str]:
        """Of the confidential log's file and the public one's, where it notes them."""
        return dict(self.message.head.get("places", {}))

    @property
    def declaration(self) -> dict[str, Any]:
        """The study as genesis publishes it."""
        manifest = self.public_records()[-1]
        declared: dict[str, Any] = msgspec.json.decode(manifest.value or b"")["study"]
        return declared

    @property
    def result_of(self) -> str | None:
        """The job whose result it takes; None for every entry of another kind."""
        return self.message.head["job"] if self.message.head["type"] == RESULT else None

    @property
    def jobs(self) -> list[Job]:
        """The batch jobs that this close begins."""
        return [Job.of(fields, self.number) for fields in self.message.head.get("jobs", [])]

    @property
    def number(self) -> int:
        return int(self.message.head["number"])

    @property
    def cut(self) -> Positions:
        return {int(p): int(o) for p, o in self.message.head["cut"].items()}

    @property
    def marks(self) -> dict[int, int]:
        """By partition, the last period that a marker below the cut closes."""
        return {int(p): int(n) for p, n in self.message.head["marks"].items()}

    @property
    def marked(self) -> dict[int, int]:
        """By partition, when that marker was appended, in milliseconds; not in old entries."""
        return {int(p): int(t) for p, t in self.message.head.get("marked", {}).items()}

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(
            Charge(c["release"], self.number, Fraction(c["rho"]))
            for c in self.message.head["charges"]
        )

    @property
    def snapshot(self) -> tuple[str, str]:
        """Name and SHA-256 of the population's snapshot."""
        snapshot = self.message.head["snapshot"]
        return snapshot["name"], snapshot["sha256"]

    @property
    def key(self) -> bytes:
        """Of the hash of ids. Genesis alone has it."""
        return bytes.fromhex(self.message.head["key"])

    @property
    def simulated(self) -> bool:
        """Whether the study's noise is seeded. Genesis alone says it."""
        return bool(self.message.head["simulated"])

    @property
    def groups(self) -> str | None:
        """The hash of the table of groups that genesis binds; None without batch releases."""
        digest: str | None = self.message.head.get("groups")
        return digest

    @property
    def accounting(self) -> dict[str, Any] | None:
        """What became of all cells up to the cut; None for entries that close no period."""
        cells: dict[str, Any] | None = self.message.head.get("accounting")
        return cells

    @property
    def published(self) -> list[str]:
        """Hashes of the public messages of this entry, in order."""
        return list(self.message.head["public"])

    def state(self, release: str) -> bytes:
        return self.message.part(f"state {release}")

    def public_records(self) -> list[Record]:
        """The records to be published, as they were decided."""
        return [
            msgspec.msgpack.decode(data, type=Record)
            for name, data in self.message.parts
            if name.startswith("public/")
        ]


def genesis(
    study: Study,
    reports: TopicInfo,
    key: bytes,
    simulated: bool,
    groups: str | None = None,
    places: Mapping[str, str] | None = None,
) -> Message:
    """Entry 0, with the study's declaration as the first public message.

    groups: the hash of the table of groups, where the study has batch releases. places: of the
    files of both logs.
    """
    manifest = {
        "type": STUDY_TYPE,
        "study": msgspec.json.decode(study.canonical()),
        "study_hash": study.hash,
        "code_version": __version__,
    }
    declared = build_message(0, START, manifest, [])
    public = message_records(
        declared,
        TOPIC,
        kind=STUDY_TYPE,
        source=f"stream-dp/{study.name}",
        content="application/json",
        time=None,
    )
    head = {
        "type": GENESIS,
        "number": 0,
        "study_hash": study.hash,
        "reports": {"identity": reports.identity, "partitions": reports.partitions},
        "key": key.hex(),
        "simulated": simulated,
        "cut": {str(p): 0 for p in range(reports.partitions)},
        "marks": {str(p): 0 for p in range(reports.partitions)},
        "charges": [],
        "public": [declared.hash],
        "code_version": __version__,
        **({} if groups is None else {"groups": groups}),
        **({"places": dict(places)} if places and any(places.values()) else {}),
    }
    return build_message(0, START, head, _parts(public, {}))


def close(
    before: Message,
    *,
    number: int,
    cut: Positions,
    marks: Mapping[int, int],
    marked: Mapping[int, int],
    charges: Sequence[Charge],
    snapshot: tuple[str, str],
    accounting: dict[str, Any],
    jobs: Sequence[Job],
    states: Mapping[str, bytes],
    public: Sequence[Record],
    hashes: Sequence[str],
) -> Message:
    """The entry that closes a period, after the entry `before`.

    number: of the period.
    cut: by partition, the position where the period's input ends.
    marks, marked: by partition, the last period that a marker closes, and its append time in
        milliseconds.
    charges: of the period.
    snapshot: name and SHA-256 of the population's snapshot.
    accounting: what became of all cells since the study began.
    jobs: batch jobs that the close begins.
    states: by release, its mechanism's state.
    public: the records to be published.
    hashes: of the public messages, in order.
    """
    head = {
        "type": CLOSE,
        "number": number,
        "cut": {str(p): o for p, o in cut.items()},
        "marks": {str(p): n for p, n in marks.items()},
        "marked": {str(p): t for p, t in marked.items()},
        "charges": [{"release": c.release, "rho": str(c.rho)} for c in charges],
        "snapshot": {"name": snapshot[0], "sha256": snapshot[1]},
        "accounting": accounting,
        "public": list(hashes),
        "code_version": __version__,
        **({"jobs": [job.as_dict() for job in jobs]} if jobs else {}),
    }
    return build_message(before.index + 1, before.hash, head, _parts(public, states))


def result(
    before: Message, job: Job, digest: str, public: Sequence[Record], hashes: Sequence[str]
) -> Message:
    """The entry that takes a job's result, of that hash, after the entry `before`.

    It charges nothing: that was done by the close that began the job.
    """
    head = {
        "type": RESULT,
        "number": job.period,
        "job": job.id,
        "release": job.release,
        "result": digest,
        "charges": [],
        "public": list(hashes),
        "code_version": __version__,
    }
    return build_message(before.index + 1, before.hash, head, _parts(public, {}))


def placed(before: Message, places: Mapping[str, str]) -> Message:
    """The entry that notes in which files the journal goes on, after the entry `before`."""
    head = {
        "type": PLACED,
        "number": before.head["number"],
        "places": dict(places),
        "charges": [],
        "public": [],
        "code_version": __version__,
    }
    return build_message(before.index + 1, before.hash, head, [])


def _parts(public: Sequence[Record], states: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The states, each as parts that fit a record, and the public records."""
    dumped = [part for name, data in states.items() for part in split_part(f"state {name}", data)]
    packed = [msgspec.msgpack.encode(record) for record in public]
    return dumped + [(f"public/{i}", data) for i, data in enumerate(packed)]


def journal_records(entry: Message, study: Study) -> list[Record]:
    return message_records(
        entry,
        JOURNAL,
        kind="stream-dp.decision",
        source=f"stream-dp/{study.name}",
        content="application/octet-stream",
        time=None,
    )


def read(log: Log) -> list[Entry]:
    """The whole journal, checked for gaps, damage and a broken chain. Raises Inconsistent."""
    entries = [Entry(decision) for decision in read_messages(log, JOURNAL, "journal")]
    begun: set[str] = set()
    closed = -1
    for place, entry in enumerate(entries):
        result_of = entry.result_of
        if entry.message.head["type"] == PLACED:
            continue
        if result_of is None:
            closed += 1
            if entry.number != closed:
                raise Inconsistent(f"journal: entry {place} closes period {entry.number}")
            begun |= {job.id for job in entry.jobs}
        elif result_of in begun:
            begun.remove(result_of)
        else:
            raise Inconsistent(f"journal: entry {place} takes a result that no job waits for")
    return entries


def closes(entries: Sequence[Entry]) -> list[Entry]:
    """Genesis, and the entries that close a period: entry n closes period n."""
    return [entry for entry in entries if entry.closes]


def outstanding(entries: Sequence[Entry]) -> list[Job]:
    """Jobs that are begun and have no result."""
    done = {entry.result_of for entry in entries}
    return [job for entry in entries for job in entry.jobs if job.id not in done]


def certified_charges(entry: Entry, study: Study) -> tuple[Charge, ...]:
    """The charges that certificates count once the entry is published.

    A data set's stands in the close that begins its job, and counts with the job's result: one
    that is abandoned shows nothing.
    """
    if entry.result_of is None:
        return tuple(c for c in entry.charges if study.batch(c.release) is None)
    batch = study.batch(entry.message.head["release"])
    assert batch is not None
    return (Charge(batch.name, entry.number, batch.rho),)


def first_declared_plan(entries: Sequence[Entry], plan: Plan) -> Plan:
    """The plan under the study's first declaration, whose description alone may differ from it.

    Raises Inconsistent, which names the keys that have changed.
    """
    first = entries[0].declaration
    study = plan.study.described(first.get("description", ""))
    if study.hash != entries[0].message.head["study_hash"]:
        keys = changed_keys(first, msgspec.json.decode(study.canonical()))
        raise Inconsistent(
            f"study: it has changed since its first record: {keys}; restore the study file, or"
            " start a new study with a new log"
        )
    return plan if study is plan.study else replace(plan, study=study)


def check_journal(entries: Sequence[Entry], plan: Plan, reports: TopicInfo) -> Ledger:
    """That the journal is of this study, this input and this plan. Raises Inconsistent."""
    first_declared_plan(entries, plan)
    first = entries[0].message.head
    if first["reports"]["identity"] != reports.identity:
        raise Inconsistent(
            "reports: this is another log than the one that the journal was begun on; run with"
            " the original one"
        )
    if first["reports"]["partitions"] != reports.partitions:
        raise Inconsistent(
            f"reports: the topic has {reports.partitions} partitions, the journal was begun with"
            f" {first['reports']['partitions']}; the number cannot change during a study"
        )
    ledger = plan.ledger()
    for entry in closes(entries)[1:]:
        if entry.charges != plan.charges(entry.number):
            raise Inconsistent(
                f"journal: period {entry.number} was charged otherwise than the plan says; run the"
                " version of stream-dp that wrote it"
            )
        ledger = ledger.charge(*entry.charges)
    return ledger


def check_unpublished(public: Log) -> None:
    """That nothing is published, as there is no journal. Raises Inconsistent."""
    if next(read_messages(public, TOPIC, "public log"), None) is not None:
        raise Inconsistent(
            "journal: it is empty, but the public log is not: the confidential log is lost or not"
            " the right one; restore it, or begin a new study with new logs"
        )


def check_public(entries: Sequence[Entry], public: Sequence[str]) -> None:
    """That what is published is what the journal decided. Raises Inconsistent."""
    decided = [digest for entry in entries for digest in entry.published]
    if len(public) > len(decided):
        raise Inconsistent(
            f"journal: it ends at public message {len(decided) - 1}, but the public log holds"
            f" {len(public) - 1}: an older journal was restored; bring back the newer one, for"
            " its noise must not be drawn again"
        )
    for place, (published, digest) in enumerate(zip(public, decided, strict=False)):
        if published != digest:
            raise Inconsistent(
                f"public log: message {place} is not the one that the journal decided; restore"
                " the public log from a copy, or find out who changed it"
            )
