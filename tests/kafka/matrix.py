"""The crash matrix on a real broker: releasers are killed, and what they leave is counted.

    python tests/kafka/matrix.py [KILLS [ENGINE]]

Starts a broker of its own, runs a long study while releasers are killed with SIGKILL at every
named step and at random moments, kills the broker and starts it again, starts second instances
beside the first, and stops releasers in a commit for longer than a transaction may last.
Prints a table; exit code 1 if anything in it is wrong. With the engine `processes` aggregators run
beside them, of which many are killed while they close a period.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
for folder in (TESTS, TESTS.parent / "deploy" / "kafka", TESTS / "kafka"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from aggregators import Aggregators  # noqa: E402
from broker import FOLDER  # noqa: E402
from days import Days  # noqa: E402
from kit.brokers import SingleBroker  # noqa: E402
from lives import PATIENCE, PAUSE, SHORT, Life, Nursery  # noqa: E402
from matrix_report import ONCE, RANDOM, Report, judge, steps_of  # noqa: E402
from watch import Watch  # noqa: E402

from stream_dp.services.commands.cli import main as command  # noqa: E402
from stream_dp.study.topics import JOURNAL, RELEASES  # noqa: E402


class Matrix:
    """A study on a broker whose releasers are killed, and the same study in one calm run.

    broker: a `Broker`, or an object with its methods
    kills: of releasers
    periods: of the study; more than the kills use up
    fault: what is wrong with the releaser, to see that the report shows it
    engine: `here` or `processes`
    """

    def __init__(
        self,
        broker: Any,
        folder: Path,
        kills: int,
        periods: int,
        seed: int = 1,
        fault: str = "",
        engine: str = "here",
    ) -> None:
        self.fault, self.engine = fault, engine
        self.broker, self.folder, self.kills = broker, folder, kills
        self.rng, self.report = random.Random(seed), Report(steps_of(engine))
        copies = broker.replication
        server = broker.address
        self.days = Days.on_kafka(
            folder / "kafka", server, f"m{kills}", periods, replication=copies, engine=engine
        )
        self.calm = Days.on_sqlite(folder / "calm", periods)
        self.sent = 0

    def run(self, *, broker_kills: int, second: int, pauses: int = 0) -> Report:
        start = time.monotonic()
        for number in range(1, self.days.periods + 1):
            self.calm.send(self.calm.day(number))
        self.calm.run()
        assert command(["topics", str(self.days.file)]) == 0
        public = Watch(self.broker.address, f"m{self.kills}-public.{RELEASES}")
        private = Watch(self.broker.address, f"m{self.kills}.{JOURNAL}")
        self.nursery = Nursery(self.days, self.fault)
        aggregators = None if self.engine == "here" else Aggregators(self.days.file, self.kills)
        try:
            for event in self._events(broker_kills, second, pauses):
                event()
            if aggregators:
                aggregators.calm()
            self._finish()
        finally:
            self.nursery.close()
            if aggregators:
                aggregators.stop()
                self.report.aggregator_kills = aggregators.kills
            seen, decided = public.stop(), private.stop()
        judge(
            self.report,
            interrupted=self.days,
            calm=self.calm,
            seen=seen,
            tried=decided,
        )
        self.report.lives = self.nursery.lives
        self.report.codes = Counter(self.nursery.codes.values())
        self.report.seconds = time.monotonic() - start
        return self.report

    def _events(self, broker_kills: int, second: int, pauses: int) -> list[Callable[[], None]]:
        often = [step for step in self.report.steps if step not in ONCE]
        once = [step for step in self.report.steps if step in ONCE]
        if self.fault:
            often, once = ["journal open"], []
        chance = min(self.kills // 4, max(2, self.kills - len(self.report.steps)))
        steps = [RANDOM] * (0 if self.fault else chance)
        steps += [often[i % len(often)] for i in range(self.kills - len(steps) - len(once))]
        self.rng.shuffle(steps)
        events: list[Callable[[], None]] = [lambda s=s: self._kill(s) for s in steps]
        others: list[Callable[[], None]] = [
            lambda i=i: self._kill_broker(i) for i in range(broker_kills)
        ]
        others += [lambda i=i: self._second_instance(i) for i in range(second)]
        others += [lambda i=i: self._pause(i) for i in range(pauses)]
        for place, event in enumerate(others, 1):
            events.insert(place * len(steps) // (len(others) + 1) + place, event)
        return [*(lambda s=s: self._kill(s) for s in once), *events]

    def _feed(self, life: Life) -> None:
        """Send the next period's input when the process waits for it."""
        if life.waits() and self.sent < self.days.periods:
            label = self.days.labels[self.sent]
            if life.waits() == label:
                self.sent += 1
                self.days.send(self.days.day(self.sent))

    def _fed(self, life: Life, done: Callable[[], bool]) -> int:
        def fed() -> bool:
            self._feed(life)
            return done()

        return life.until(fed)

    def _kill(self, step: str) -> None:
        """Kill a releaser at a step or at a random moment, in its third period at the latest."""
        if step == RANDOM:
            at = self.rng.choice(["owned", "recovered", "drawn", "commit", "publish"])
            most = self.rng.choice([0.002, 0.02, 0.2, 1.0])
            order = {"step": at, "after": self.rng.uniform(1e-6, most)}
        else:
            most = 1 if step in {"owned", "recovered", *ONCE} else 2
            order = {"step": step, "call": self.rng.randrange(most)}
        life, sent = self.nursery.start(**order), self.sent
        self._fed(life, lambda: life.code is not None or self.sent > sent + 2)
        if life.kill() == -signal.SIGKILL:
            self.report.kills[step] += 1
        else:
            self.report.notes.append(f"not killed at {step}: code {life.code}: {life.text()}")

    def _kill_broker(self, which: int) -> None:
        """Kill the broker while a releaser works, or while its transaction is open."""
        go = self.folder / f"go-broker-{which}"
        step = [None, "journal open", "release open"][which % 3]
        order = {"step": step, "hold": str(go)} if step else {}
        life = self.nursery.start(**order)
        if step:
            self._fed(life, life.holds)
        else:
            self._fed(life, lambda: "published" in life.text())
        self.broker.stop(signal.SIGKILL)
        self.report.broker_kills += 1
        go.touch()
        time.sleep(self.rng.uniform(*self.broker.down))
        self.broker.start()
        before = life.text().count("published")
        code = self._fed(
            life, lambda: life.code is not None or life.text().count("published") > before + 1
        )
        if code not in (0, 5):
            self.report.notes.append(f"after a broker's death: code {code}: {life.text()}")
        life.kill()

    def _second_instance(self, which: int) -> None:
        """Start a second releaser while the first waits at a step; the first must end, fenced."""
        go = self.folder / f"go-second-{which}"
        step = ["drawn", "commit", "journal open", "publish", "release open"][which % 5]
        first = self.nursery.start(step=step, hold=str(go))
        self._fed(first, first.holds)
        second = self.nursery.start()
        self._fed(second, lambda: second.text().count("published") > 0 or second.code is not None)
        go.touch()
        code = self._fed(second, lambda: first.code is not None) or first.code
        alive = second.code is None
        ended = second.kill(signal.SIGTERM)
        line = (
            f"first waits at '{step}': code {first.code}; second goes on: {alive}, SIGTERM: {ended}"
        )
        self.report.second_instances.append(line)
        if first.code != 3 or not alive or ended != 0 or "taken this role" not in first.text():
            self.report.notes.append(f"{line}: {code}: {first.text()} {second.text()}")

    def _pause(self, which: int) -> None:
        """Pause a releaser in a commit for longer than its transaction may last."""
        go = self.folder / f"go-pause-{which}"
        step = ["journal open", "release open"][which % 2]
        text = self.days.file.read_text()
        self.days.file.write_text(text + SHORT)
        life = self.nursery.start(step=step, hold=str(go))
        self._fed(life, life.holds)
        go.touch()
        life.pause(PAUSE)
        code = self._fed(life, lambda: life.code is not None)
        self.days.file.write_text(text)
        line = f"at '{step}': code {code}"
        self.report.pauses.append(line)
        if code != 5 or "no other one has its role" not in life.text():
            self.report.notes.append(f"{line}: {life.text()}")

    def _finish(self) -> None:
        """Send what is left and run to the horizon."""
        for number in range(self.sent + 1, self.days.periods + 1):
            self.days.send(self.days.day(number))
        life = self.nursery.start()
        if life.until(lambda: life.code is not None, 2 * PATIENCE) != 0:
            self.report.notes.append(f"the last run: {life.text()}")


def run_on(
    broker: Any,
    kills: int,
    periods: int,
    *,
    broker_kills: int,
    second: int,
    pauses: int = 0,
    fault: str = "",
    engine: str = "here",
) -> Report:
    """Runs the matrix on a broker that answers."""
    with TemporaryDirectory(prefix="stream-dp-") as folder:
        matrix = Matrix(broker, Path(folder), kills, periods, fault=fault, engine=engine)
        return matrix.run(broker_kills=broker_kills, second=second, pauses=pauses)


def run(
    kills: int, periods: int, *, libs: Path, brokers: Any = SingleBroker, **more: Any
) -> Report:
    """Starts a broker of class `brokers` and runs the matrix on it; more: of `run_on`."""
    with TemporaryDirectory(prefix="stream-dp-") as folder:
        broker = brokers(Path(folder) / "broker", libs=libs)
        broker.start()
        try:
            return run_on(broker, kills, periods, **more)
        finally:
            broker.stop()


def main() -> int:
    kills = int(sys.argv[1]) if sys.argv[1:] else 220
    engine = sys.argv[2] if sys.argv[2:] else "here"
    others = {"broker_kills": 6, "second": 5, "pauses": 4}
    report = run(kills, max(32, kills), libs=FOLDER / "libs", engine=engine, **others)
    print(report.table())
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
