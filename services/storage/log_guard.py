"""The guard of both logs: what must be true of them, compared with the journal again and again.

Whoever administers a cluster may change it while a releaser runs: create a topic again, add
partitions, delete the first records, or give a topic a retention. The releaser asks the guard
before every draw, every commit to the journal and every publication, and now and then while
nothing happens. `send` and `close` ask before they write.

The order of the checks is the same everywhere: identities, partitions, first offsets, ends,
settings.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from stream_dp.errors import Inconsistent
from stream_dp.log.log import (
    Fenced,
    Forbidden,
    Log,
    LogError,
    Missing,
    Positions,
    Stored,
    TopicInfo,
    TopicLost,
    Unavailable,
)
from stream_dp.log.message import Message, check_whole, manifest_message, part_name, read_chain
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS

from . import journal, journal_checks
from .deployment import Deployment
from .journal import Entry, reports_topic
from .journal_checks import check_declared, check_growth, check_identity, check_reports
from .restored_logs import advice, check_files, moved_entry

ASK = 30.0  # seconds between two questions while nothing happens
LABELS = {JOURNAL: "journal", RELEASES: "public log"}
_ATTEMPTS, _PAUSE = 3, 1.0  # at a topic that the cluster does not show; seconds
_AT_ONCE = 500  # records of one read
Topics = tuple[Mapping[str, int], Mapping[str, int]]  # confidential and public
Side = tuple[Log, Mapping[str, int]]  # a log, and its topics


def check_partitions(log: Log, topics: Mapping[str, int], found: Mapping[str, TopicInfo]) -> None:
    """Raises Inconsistent if existing topics have other numbers of partitions than expected."""
    for topic, count in topics.items():
        info = found.get(topic)
        if info is None or info.partitions == count:
            continue
        if topic == REPORTS:
            check_declared(info, count)
        raise Inconsistent(
            f"{log.name(topic)}: has {info.partitions} partitions and must have {count}"
        )


def check_unread(first: Positions, unread: Positions) -> None:
    """Raises Inconsistent if reports are gone before they were read.

    first: by partition, the first offset that can be read.
    unread: by partition, the first offset that was not read.
    """
    for partition, position in unread.items():
        if first[partition] > position:
            raise Inconsistent(
                f"reports: partition {partition} begins at position {first[partition]}, and was"
                f" read to {position}: the reports between were deleted before their period was"
                " closed; restore a backup and send them again, and give the topic a longer"
                " retention"
            )


def check_hazards(*sides: Side) -> None:
    """Raises Inconsistent if settings of topics lose or refuse records."""
    if lines := [line for log, topics in sides for line in log.hazards(topics)]:
        raise Inconsistent(lines)


def check_logs(
    entries: Sequence[Entry], sides: tuple[Side, Side], file: str, *, moved: bool = False
) -> None:
    """Compares both logs with the journal once, before this process writes to one of them.

    entries: of the journal; none before the study begins.
    file: the name of the study file, for messages to the operator.
    moved: whether the operator states that other topics take the place of the journal's.

    Raises Inconsistent, LogError.
    """
    (log, topics), (public, published) = sides
    described, shown = log.describe_all(topics), public.describe_all(published)
    if entries and REPORTS in described:
        if not moved:
            check_identity(entries, described[REPORTS])
        if described[REPORTS].identity == reports_topic(entries).identity:
            check_growth(entries, described[REPORTS])
    if entries and RELEASES in shown and not public.file_identity:
        any_release = bool(public.read(RELEASES, {0: shown[RELEASES].first[0]}, 1, 0).records)
        moved_entry(entries, log, public, published=any_release, moved=moved, file=file)
    check_partitions(log, topics, described)
    check_partitions(public, published, shown)
    for topic, infos in ((JOURNAL, described), (RELEASES, shown)):
        if topic in infos:
            check_whole(infos[topic], LABELS[topic])
    if entries:
        check_hazards(*sides)


@dataclass
class WatchedChain:
    """The end of a chain of messages that this process alone may write.

    head: the hash of the last message that was seen in the log.
    position: behind that message.
    written: hashes of the messages that were written since, in order.
    """

    log: Log
    topic: str
    head: str
    position: int
    written: list[str]

    @classmethod
    def of(
        cls, log: Log, topic: str, read: Sequence[Message], written: Iterable[str]
    ) -> WatchedChain:
        """Begins behind the messages that were read. written: hashes of further ones."""
        if not read:
            return cls(log, topic, "", 0, list(written))
        end = read[-1].start + len(read[-1].listed) + 1
        return cls(log, topic, read[-1].hash, end, list(written))

    def check(self) -> None:
        """Raises Inconsistent unless the topic ends with the last message that was written.

        Raises Fenced if another process has continued the chain.
        """
        end = self.log.stable(self.topic)[0]
        if end < self.position:
            raise Inconsistent(
                f"{LABELS[self.topic]}: ends at position {end}, before its last message: records"
                " are gone; restore it"
            )
        part: Stored | None = None  # whose manifest was not read yet
        while self.position < end:
            batch = self.log.read(self.topic, {0: self.position}, _AT_ONCE, 0)
            for record in batch.records:
                if part_name(record) == "manifest":
                    self._follow(record)
                    part = None
                else:
                    part = part or record
            self.position = batch.next[0]
            if batch.at_end:
                break
        if part is not None:
            raise self._foreign(part)

    def _follow(self, record: Stored) -> None:
        digest = hashlib.sha256(record.value or b"").hexdigest()
        if self.written[:1] != [digest]:
            raise self._foreign(record)
        self.head = self.written.pop(0)

    def _foreign(self, record: Stored) -> Exception:
        """The error for a record of another writer: Fenced if it continues the chain."""
        try:
            if manifest_message(record.value or b"").previous == self.head:
                return Fenced("another process has taken this role")
        except ValueError:
            pass
        return Inconsistent(
            f"{LABELS[self.topic]}: position {record.offset} has a record that the releaser did"
            " not write; find out who writes to the topic, and restore a backup"
        )


@dataclass
class LogGuard:
    """What must be true of both logs while a releaser runs.

    topics: confidential and public, with their numbers of partitions.
    file: the name of the study file, for messages to the operator.
    every: seconds between two questions while nothing happens.
    unread: gives, by partition, the first report that was not read.
    """

    log: Log
    public: Log
    topics: Topics
    file: str
    every: float = ASK
    unread: Callable[[], Positions] = dict
    _entries: Sequence[Entry] = field(default=(), init=False)
    _known: list[dict[str, TopicInfo]] = field(default_factory=list, init=False)
    _chains: tuple[WatchedChain, ...] = field(default=(), init=False)
    _asked: float = field(default=0.0, init=False)

    def begin(self, entries: Sequence[Entry], chain: Sequence[Message]) -> None:
        """Begins to watch the ends of both logs, and checks them once as `require` does.

        entries: of the journal; those read from the log come first, then those only written.
        chain: the messages of the public log.
        """
        read = [entry.message for entry in entries if entry.log is not None]
        written = [entry.message.hash for entry in entries[len(read) :]]
        self._chains = (
            WatchedChain.of(self.log, JOURNAL, read, written),
            WatchedChain.of(self.public, RELEASES, chain, []),
        )
        self._entries, self._known = list(entries), self._described()
        self.require()

    def decided(self, entry: Message) -> None:
        """Notes an entry that was committed to the journal."""
        self._chains[0].written.append(entry.hash)

    def published(self, hashes: Iterable[str]) -> None:
        """Notes messages that were committed to the public log."""
        self._chains[1].written += hashes

    def look(self) -> None:
        """Asks, unless the last answer is recent; see `require`."""
        if time.monotonic() - self._asked >= self.every:
            self.require()

    def require(self) -> None:
        """Compares both logs with the journal.

        Raises Inconsistent if decisions or reports are not what they were, TopicLost if another
        topic was made again, Fenced if another releaser has continued the journal, and LogError.
        """
        check_files(self._entries, self.log, self.public, self.file)
        described = self._described()
        self._check_identities(described)
        for (side, topics), infos in zip(self._sides, described, strict=True):
            check_partitions(side, topics, infos)
        check_whole(described[0][JOURNAL], LABELS[JOURNAL])
        check_whole(described[1][RELEASES], LABELS[RELEASES])
        check_unread(described[0][REPORTS].first, self.unread())
        for chain in self._chains:
            chain.check()
        check_hazards(*self._sides)
        self._asked = time.monotonic()

    @property
    def _sides(self) -> tuple[Side, Side]:
        return (self.log, self.topics[0]), (self.public, self.topics[1])

    def _described(self) -> list[dict[str, TopicInfo]]:
        """Describes the topics of both logs; asks again if the cluster does not show all."""
        for attempt in range(_ATTEMPTS):
            described = [side.describe_all(topics) for side, topics in self._sides]
            if all(
                topics.keys() <= infos.keys()
                for (_, topics), infos in zip(self._sides, described, strict=True)
            ):
                break
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE)  # a broker that has just started does not know every topic
        return described

    def _check_identities(self, found: Sequence[Mapping[str, TopicInfo]]) -> None:
        """Raises Inconsistent for topics with decisions or reports, TopicLost for others."""
        lost = list[str]()
        for (side, topics), identities, infos in zip(self._sides, self._known, found, strict=True):
            for topic in topics:
                info = infos.get(topic)
                if info is not None and info.identity == identities[topic].identity:
                    continue
                if topic == REPORTS and info is not None:
                    check_identity(self._entries, info)
                if topic == RELEASES and info is not None:
                    raise Inconsistent(advice("public", info.identity, self.file))
                how = "deleted" if info is None else "deleted and created again"
                if topic in LABELS or topic == REPORTS:
                    raise Inconsistent(
                        f"{LABELS.get(topic, topic)}: the topic {side.name(topic)} was {how};"
                        " restore a backup, or end the study with what is published"
                    )
                lost.append(f"{side.name(topic)}: the topic was {how}, and its records are lost")
        if lost:
            raise TopicLost(f"{lost[0]}; start again: the study goes on without them")


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
