"""A releaser on three brokers with three replicas, whose leaders die.

    python benchmarks/kills/leader_deaths.py [DEATHS [SECONDS]]

DEATHS of the broker that leads the journal, the reports or the releases, in turn, with SIGKILL,
while one releaser goes on. Then two of the brokers are away for SECONDS, so that nothing has a
quorum. After each death a period is sent and closed. Prints a table, in seconds from the new leader
(or from the last sent record, if that is later) to the publication; exit code 1 if the releaser
ended, was later than 15 s, or published other bytes than on a calm log.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "kafka"), str(ROOT / "tests"), str(ROOT / "deploy" / "kafka")]

from broker import FOLDER  # noqa: E402
from days import Days  # noqa: E402
from kit.clusters import NODES, Cluster  # noqa: E402

from stream_dp.log.log import Unavailable  # noqa: E402
from stream_dp.services.commands.cli import main as command  # noqa: E402
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS  # noqa: E402

DEATHS, AWAY, LATE = 20, 40.0, 15.0
PREFIX = "deaths"
TOPICS = {
    "journal": f"{PREFIX}.{JOURNAL}",
    "reports": f"{PREFIX}.{REPORTS}",
    "releases": f"{PREFIX}-public.{RELEASES}",
}


class Trial:
    """One releaser of a study of many days, and what it says."""

    def __init__(self, cluster: Cluster, folder: Path, periods: int) -> None:
        self.cluster, self.sent = cluster, 0
        self.days = Days.on_kafka(
            folder / "study", cluster.address, PREFIX, periods, replication=NODES
        )
        assert command(["topics", str(self.days.file)]) == 0
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "stream_dp.services.commands.cli",
                    "run",
                    self.days.file,
                ],
                stdout=said,
                stderr=said,
            )

    def close(self) -> int:
        """Stops the releaser and returns its exit code."""
        self.process.terminate()
        return self.process.wait(300)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def published(self) -> bool:
        return f"published {self.days.labels[self.sent - 1]}\n" in self.said.read_text()

    def until(self, done: Callable[[], bool], patience: float = 400) -> None:
        deadline = time.monotonic() + patience
        while not done():
            if self.ended or time.monotonic() > deadline:
                raise AssertionError(f"the releaser does not go on: {self.said.read_text()}")
            time.sleep(0.05)

    def send(self) -> float:
        """Sends the next day, again while no broker takes it; the time at which it was taken."""
        self.sent += 1
        records = self.days.day(self.sent)
        while True:
            with suppress(Unavailable):
                self.days.send(records)
                return time.monotonic()

    def calm_day(self) -> None:
        self.send()
        self.until(self.published)

    def death(self, topic: str) -> float:
        """Kills the leader of a topic. Returns the seconds from the new leader to publication."""
        dies = self.cluster.leader_of(topic)
        assert dies is not None
        self.cluster.kill(dies)
        return self._late(lambda: self.cluster.leader_of(topic) not in {None, dies})

    def no_quorum(self, seconds: float) -> float:
        """Kills two brokers for so long. Returns the seconds from their return to publication."""
        self.cluster.kill(0, 1)
        starts = time.monotonic() + seconds

        def back() -> bool:
            if time.monotonic() < starts:
                return False
            self.cluster.start()
            return all(self.cluster.leader_of(topic) is not None for topic in TOPICS.values())

        return self._late(back)

    def _late(self, back: Callable[[], bool]) -> float:
        times = list[float]()
        sender = threading.Thread(target=lambda: times.append(self.send()))
        sender.start()
        while not back():
            time.sleep(0.1)
        leader = time.monotonic()
        sender.join()
        self.until(self.published)
        late = time.monotonic() - max(leader, times[0])
        self.cluster.start()
        for topic in TOPICS.values():
            self.cluster.settle(topic)
        return late


def main() -> int:
    deaths = int(sys.argv[1]) if sys.argv[1:] else DEATHS
    away = float(sys.argv[2]) if sys.argv[2:] else AWAY
    late = dict[str, list[float]]()
    with TemporaryDirectory(prefix="stream-dp-") as name:
        folder = Path(name)
        cluster = Cluster(folder / "cluster", FOLDER / "libs")
        cluster.start()
        trial = Trial(cluster, folder, deaths + 3)
        try:
            trial.calm_day()
            for number in range(deaths):
                kind = list(TOPICS)[number % len(TOPICS)]
                seconds = trial.death(TOPICS[kind])
                late.setdefault(f"the leader of {kind} dies", []).append(seconds)
                print(f"{kind}: {seconds:.1f}", file=sys.stderr, flush=True)
            if away:
                seconds = trial.no_quorum(away)
                late[f"no quorum for {away:.0f} s"] = [seconds]
            trial.calm_day()
            code = trial.close()
            decided = trial.days.decided()
        except AssertionError as error:
            print(error)
            return 1
        finally:
            trial.close()
            cluster.stop()
        calm = Days.on_sqlite(folder / "calm", trial.days.periods)
        for number in range(1, trial.sent + 1):
            calm.send(calm.day(number))
        calm.run()
        counts = [entry["accounting"] for entry in decided] == [
            entry["accounting"] for entry in calm.decided()[: len(decided)]
        ]
    print("| what happens | times | publication after the new leader, s: median | most |")
    print("|---|---|---|---|")
    for what, seconds_of in late.items():
        middle = sorted(seconds_of)[len(seconds_of) // 2]
        print(f"| {what} | {len(seconds_of)} | {middle:.1f} | {max(seconds_of):.1f} |")
    print(
        f"The releaser lived through all of it: {code == 0}."
        f" The counts are those of a calm run: {counts}."
    )
    latest = max(seconds for several in late.values() for seconds in several)
    return 0 if code == 0 and counts and latest <= LATE else 1


if __name__ == "__main__":
    sys.exit(main())
