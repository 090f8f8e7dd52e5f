"""What an administrator of Kafka does while a releaser runs, and how the study goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from days import PEOPLE, Days, everything
from kit.panels import Noiseless, shared

from stream_dp.services.commands.cli import main
from stream_dp.services.intake.dead_letters import SOURCE
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.process.command_output import failure
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import (
    DEAD_LETTERS,
    ESTIMATES,
    HEARTBEATS,
    JOURNAL,
    RELEASES,
    REPORTS,
)

LEFT = 120.0  # seconds until a releaser must have ended
PUBLISHED = 2  # periods before the act
MOMENTS = ("idle", "reading", "unpublished")
PUBLIC = {RELEASES, ESTIMATES}


@dataclass
class Cluster:
    """A study on a broker, and what an administrator may do to its topics."""

    server: str
    days: Days
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.server})

    @classmethod
    def with_study(cls, server: str, folder: Path, prefix: str, engine: str) -> Cluster:
        """A study with answers in a topic, of which some periods are published and backed up."""
        days = Days.on_kafka(folder, server, prefix, 5, partitions=2, engine=engine)
        text = days.file.read_text().replace("[run]\n", "[run]\nestimates = true\n")
        days.file.write_text(text)
        days.setting = Deployment.load(days.file)
        days.send([record for n in range(1, PUBLISHED + 1) for record in days.day(n)])
        assert not days.run()
        assert main(["backup", str(days.file), str(folder / "backup")]) == 0
        return cls(server, days)

    def name(self, topic: str) -> str:
        url = self.days.public if topic in PUBLIC else self.days.log
        return f"{url.rsplit('/', 1)[1]}.{topic}"

    def add_partitions(self, topic: str, count: int) -> None:
        name = self.name(topic)
        self.admin.create_partitions([NewPartitions(name, count)])[name].result(60)

    def recreate(self, topic: str) -> None:
        """Deletes a topic and makes it again with the settings that it must have."""
        name = self.name(topic)
        self.admin.delete_topics([name])[name].result(60)
        deadline = time.monotonic() + 60
        while name in self.admin.list_topics(timeout=60).topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        setting = Deployment.load(self.days.file)
        counts = {REPORTS: self.days.partitions, HEARTBEATS: 3}
        with closing(setting.public() if topic in PUBLIC else setting.log()) as log:
            log.create({topic: counts.get(topic, 1)})

    def delete_head(self, topic: str) -> None:
        gone = TopicPartition(self.name(topic), 0, 3)
        self.admin.delete_records([gone])[gone].result(60)

    def configure(self, topic: str, key: str, value: str) -> None:
        change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", self.name(topic), incremental_configs=[change])
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def count(self, topic: str) -> int:
        """The number of records of a topic."""
        setting = self.days.setting
        with closing(setting.public() if topic in PUBLIC else setting.log()) as log:
            return len(everything(log, topic))


@dataclass(frozen=True)
class Act:
    """An act, and what makes the study go on.

    code: of the releaser's end.
    mend: undoes the act as far as the cluster lets it.
    options: of the `run` that goes on; None where a backup must be restored.
    """

    do: Callable[[Cluster], None]
    code: int = 4
    mend: Callable[[Cluster], None] = lambda cluster: None
    options: Sequence[str] | None = ()


def _declare(cluster: Cluster) -> None:
    text = cluster.days.file.read_text()
    cluster.days.file.write_text(text.replace("partitions = 2", "partitions = 4"))
    cluster.days.partitions, cluster.days.setting = 4, Deployment.load(cluster.days.file)


def _recreated(topic: str, **how: Any) -> Act:
    return Act(lambda cluster: cluster.recreate(topic), **how)


def _configured(topic: str, key: str, value: str, sound: str) -> Act:
    return Act(
        lambda cluster: cluster.configure(topic, key, value),
        mend=lambda cluster: cluster.configure(topic, key, sound),
    )


def _compact(cluster: Cluster, topic: str) -> None:
    """Compacts a topic, with a lag that lets no record go before the policy is set back."""
    cluster.configure(topic, "min.compaction.lag.ms", str(2**63 - 1))
    cluster.configure(topic, "cleanup.policy", "compact")


ACTS: dict[str, Act] = {
    "partitions added": Act(lambda cluster: cluster.add_partitions(REPORTS, 4), mend=_declare),
    "reports made again": _recreated(REPORTS, options=("--moved",)),
    "journal made again": _recreated(JOURNAL, options=None),
    "releases made again": _recreated(RELEASES, options=("--moved",)),
    "heartbeats made again": _recreated(HEARTBEATS, code=5),
    "dead letters made again": _recreated(DEAD_LETTERS, code=5),
    "estimates made again": _recreated(ESTIMATES, code=5),
    "head of journal deleted": Act(lambda cluster: cluster.delete_head(JOURNAL), options=None),
    "head of releases deleted": Act(
        lambda cluster: cluster.delete_head(RELEASES),
        mend=lambda cluster: cluster.recreate(RELEASES),
        options=("--moved",),
    ),
    "retention of the journal": _configured(JOURNAL, "retention.ms", "600000", "-1"),
    "compaction of releases": Act(
        lambda cluster: _compact(cluster, RELEASES),
        mend=lambda cluster: cluster.configure(RELEASES, "cleanup.policy", "delete"),
    ),
    "message size of releases": _configured(RELEASES, "max.message.bytes", "1500", "1048588"),
}


@dataclass
class Outcome:
    """What happened after an act.

    code, line: of the releaser's end; None and empty if it lived on.
    seconds: from the act to the end.
    draws: noise that was drawn after the act.
    appended: records that the journal or the public topic got after the act.
    unread: reports that `send` accepted and the releaser that went on did not read.
    goes_on: whether the study published its next period.
    """

    code: int | None = None
    line: str = ""
    seconds: float = 0.0
    draws: int = 0
    appended: int = 0
    unread: int = 0
    goes_on: bool = False

    def sound(self, act: Act) -> bool:
        """Whether the act was noticed in time, and nothing was lost."""
        stopped = self.code in {act.code, 4, 5} and self.seconds < 60
        return stopped and self.goes_on and not (self.draws or self.appended or self.unread)


class _Run:
    """A releaser in a thread, with an aggregator beside it where the study is closed in parts."""

    def __init__(self, cluster: Cluster, ask: float, at: Callable[[str], None]) -> None:
        self.draws = 0
        self.error: BaseException | None = None
        self._cluster, self._stop = cluster, threading.Event()
        setting = Deployment.load(cluster.days.file)
        self.process = releaser_of(setting)
        self.process.source = Noiseless(self._draw)
        self.process.ask = ask
        shared(self.process, at=at, stop=self._stop)
        self.threads = [threading.Thread(target=self._release, daemon=True)]
        if cluster.days.engine != "here":
            self.threads.append(threading.Thread(target=self._aggregate, daemon=True))
        for thread in self.threads:
            thread.start()

    def _draw(self, number: int) -> None:
        self.draws += 1

    def _release(self) -> None:
        try:
            with closing(self.process.log), closing(self.process.public):
                self.process.run()
        except BaseException as error:
            self.error = error

    def _aggregate(self) -> None:
        setting = self._cluster.days.setting
        try:
            with closing(setting.log()) as log:
                Aggregator(
                    setting.path, setting.study, log, setting.snapshots, stop=self._stop
                ).run()
        except Exception:
            return

    def ended(self, seconds: float) -> bool:
        self.threads[0].join(seconds)
        return not self.threads[0].is_alive()

    def stop(self) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join(LEFT)


def trial(cluster: Cluster, name: str, moment: str, ask: float = 1.0) -> Outcome:
    """Acts at a moment of a releaser that runs, and lets the study go on."""
    act, days, outcome = ACTS[name], cluster.days, Outcome()
    done, begun = threading.Event(), [0.0]
    step = {"reading": "read" if days.engine == "here" else "ordered", "unpublished": "publish"}
    counts = dict[str, int]()

    def do() -> None:
        counts["draws"] = run.draws
        act.do(cluster)
        counts.update({topic: cluster.count(topic) for topic in (JOURNAL, RELEASES)})
        begun[0] = time.monotonic()
        done.set()

    def at(name: str) -> None:
        if name == step.get(moment) and armed.is_set() and not done.is_set():
            do()

    armed = threading.Event()
    run = _Run(cluster, ask, at)
    try:
        _await(lambda: run.process.context.facts.waiting is not None or run.error is not None)
        assert run.error is None, run.error
        armed.set()
        if moment == "idle":
            do()
        else:
            days.send(days.day(PUBLISHED + 1))
        assert done.wait(LEFT), f"{name}: the releaser did not get to '{step.get(moment)}'"
        if run.ended(LEFT):
            assert run.error is not None
            outcome.seconds = time.monotonic() - begun[0]
            outcome.code, lines = failure(run.error)
            outcome.line = str(lines[0])
    finally:
        run.stop()
    outcome.draws = run.draws - counts["draws"]
    outcome.appended = sum(
        max(0, cluster.count(topic) - counts[topic]) for topic in (JOURNAL, RELEASES)
    )
    _go_on(cluster, act, outcome)
    return outcome


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LEFT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _send(cluster: Cluster) -> int:
    """Sends a report of everybody for the period after the open one; returns how many went."""
    days, table = cluster.days, cluster.days.folder / "table.csv"
    rows = [f"{person},{days.labels[PUBLISHED + 1]},1,yes" for person in PEOPLE]
    table.write_text("\n".join(["person,period,poverty,work", *rows]))
    return len(PEOPLE) if main(["send", str(days.file), str(table)]) == 0 else 0


def _go_on(cluster: Cluster, act: Act, outcome: Outcome) -> None:
    """Lets the study publish two more periods, with reports from before and after the mending."""
    days = cluster.days
    accepted, moved = _send(cluster), act.options != ()
    act.mend(cluster)
    if act.options is None:
        text = days.file.read_text().replace(f'"{days.log}"', '"sqlite:log.db"')
        days.file.write_text(text)
        days.log = "sqlite:log.db"
        if main(["restore", str(days.file), str(days.folder / "backup")]) != 0:
            return
    days.setting = Deployment.load(days.file)
    days.run(moved=moved)
    accepted += _send(cluster)
    main(["close", str(days.file), days.labels[PUBLISHED + 1], "--yes"])
    days.run()
    last = journal.closes(days.entries())[-1]
    with days.opened() as log:
        sent = [r for r in everything(log, REPORTS) if r.header(SOURCE)]
    read = sum(record.offset < last.input.cut[record.partition] for record in sent)
    outcome.unread = max(0, accepted - read)
    outcome.goes_on = last.number == PUBLISHED + 2 and main(["verify", str(days.file)]) == 0
