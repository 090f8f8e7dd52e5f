"""The crash matrix on a real broker: releasers are killed, and what they leave is counted.

    python tests/kafka/matrix.py [KILLS]

Starts a broker of its own, runs a long study while releasers are killed with SIGKILL at every
named step and at random moments, kills the broker and starts it again, starts second instances
beside the first, and stops releasers in a commit for longer than a transaction may last.
Prints a table; exit code 1 if anything in it is wrong.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
for folder in (TESTS, TESTS.parent / "deploy" / "kafka", TESTS / "kafka"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from broker import FOLDER, Broker  # noqa: E402
from days import Days, everything  # noqa: E402
from watch import Seen, Watch  # noqa: E402

from stream_dp.release.panels import TOPIC  # noqa: E402
from stream_dp.services.cli import main as command  # noqa: E402
from stream_dp.services.topics import DEAD_LETTERS, JOURNAL  # noqa: E402

STEPS = (
    "owned",
    "genesis open",
    "begun",
    "recovered",
    "read",
    "dead-letters",
    "cut",
    "drawn",
    "closed",
    "refused",
    "snapshot",
    "commit",
    "journal open",
    "committed",
    "publish",
    "release open",
    "published",
    "cleaned",
)
ONCE = {"genesis open", "begun"}  # these come once in a study
RANDOM = "random moment"
PATIENCE = 100.0
# In a study file: what a transaction may last. Brokers look for longer ones every ten seconds.
SHORT = '\n[run.kafka]\n"transaction.timeout.ms" = "2000"\n'
PAUSE = 14.0


@dataclass
class Nursery:
    """The process that forks releasers, and their ids."""

    days: Days
    fault: str = ""
    lives: int = 0
    codes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "kafka" / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, **what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, **order: Any) -> Life:
        self.lives += 1
        said = self.days.folder / f"said-{self.lives}"
        files = {"study": str(self.days.file), "said": str(said), "trace": str(self.trace)}
        files["fault"] = self.fault
        return Life(self, self._ask(start={**files, **order}), said)

    @property
    def trace(self) -> Path:
        return self.days.folder / "trace"

    def poll(self, pid: int) -> int | None:
        if pid not in self.codes and (code := self._ask(poll=pid)) is not None:
            self.codes[pid] = code
        return self.codes.get(pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@dataclass
class Life:
    """One releaser process."""

    nursery: Nursery
    pid: int
    said: Path

    @property
    def code(self) -> int | None:
        return self.nursery.poll(self.pid)

    def text(self) -> str:
        return self.said.read_text() if self.said.exists() else ""

    def waits(self) -> str:
        """The period whose close this process waits for, if that is what it does."""
        lines = self.text().splitlines()
        return lines[-1].rsplit(" ", 1)[1] if lines and " waits for: " in lines[-1] else ""

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        if self.code is None:
            os.kill(self.pid, how)
        return self.until(lambda: self.code is not None)

    def holds(self) -> bool:
        trace = self.nursery.trace
        return trace.exists() and f"{self.pid} holds" in trace.read_text()

    def pause(self, seconds: float) -> None:
        """Stop the process in the middle of whatever it does, and let it go on later."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)

    def until(self, done: Callable[[], bool], patience: float = PATIENCE) -> int:
        """Wait; the exit code, or 0 while the process lives."""
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"a releaser does not go on; it said: {self.text()}")
            time.sleep(0.02)
        return self.code or 0


@dataclass
class Report:
    """What the matrix found. What is under `wrong` must be 0 or empty."""

    kills: Counter[str] = field(default_factory=Counter)
    broker_kills: int = 0
    seconds_instances: list[str] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    periods: int = 0
    lives: int = 0
    seen_uncommitted: int = 0
    public_records: int = 0
    aborted_public: int = 0
    aborted_decisions: int = 0
    cells: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    wrong: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not any(self.wrong.values()) and not self.notes

    def table(self) -> str:
        rows = [f"{'killed at':<36}{'kills':>8}"]
        rows += [f"  {step:<34}{self.kills[step]:>8}" for step in (*STEPS, RANDOM)]
        rows += [
            f"  {'all':<34}{self.kills.total():>8}",
            f"{'broker killed and started again':<36}{self.broker_kills:>8}",
            f"{'second instances':<36}{len(self.seconds_instances):>8}",
            *(f"  {line}" for line in self.seconds_instances),
            f"{'pauses over the time of a transaction':<36}{len(self.pauses):>8}",
            *(f"  {line}" for line in self.pauses),
            f"{'releaser processes':<36}{self.lives:>8}",
            f"{'periods closed and published':<36}{self.periods:>8}",
            f"{'public records':<36}{self.public_records:>8}",
            f"{'seen under read_uncommitted':<36}{self.seen_uncommitted:>8}",
            f"{'  in aborted transactions':<36}{self.aborted_public:>8}",
            f"{'journal: aborted decisions':<36}{self.aborted_decisions:>8}",
            f"cells: {self.cells}",
            f"exit codes: {dict(sorted(self.codes.items()))}",
        ]
        rows += [f"{what:<48}{count:>8}" for what, count in self.wrong.items()]
        rows += [f"WRONG: {note}" for note in self.notes]
        rows.append(f"{'seconds':<36}{self.seconds:>8.0f}")
        return "\n".join(rows)


class Single(Broker):
    replication = 1
    down = (0.5, 2.0)  # seconds


class Matrix:
    """broker: a `Broker`, or what can be used as one. kills: how many; periods: of the study, more
    than the kills use up.

    fault: what is wrong with the releaser, to see that it is found where it can be.
    """

    def __init__(
        self,
        broker: Any,
        folder: Path,
        kills: int,
        periods: int,
        seed: int = 1,
        fault: str = "",
    ) -> None:
        self.fault = fault
        self.broker, self.folder, self.wanted = broker, folder, kills
        self.rng, self.report = random.Random(seed), Report()
        copies = broker.replication
        place = folder / "kafka", broker.address, f"m{kills}", periods
        self.days = Days.on_kafka(*place, replication=copies)
        self.calm = Days.on_sqlite(folder / "calm", periods)
        self.sent = 0

    def run(self, *, broker_kills: int, second: int, pauses: int = 0) -> Report:
        start = time.monotonic()
        for number in range(1, self.days.periods + 1):
            self.calm.send(self.calm.day(number))
        self.calm.run()
        assert command(["topics", str(self.days.file)]) == 0
        public = Watch(self.broker.address, f"m{self.wanted}-public.{TOPIC}")
        private = Watch(self.broker.address, f"m{self.wanted}.{JOURNAL}")
        self.nursery = Nursery(self.days, self.fault)
        try:
            for event in self._events(broker_kills, second, pauses):
                event()
            self._finish()
        finally:
            self.nursery.close()
            seen, decided = public.stop(), private.stop()
        self._judge(seen, decided)
        self.report.lives = self.nursery.lives
        self.report.codes = Counter(self.nursery.codes.values())
        self.report.seconds = time.monotonic() - start
        return self.report

    def _events(self, broker_kills: int, second: int, pauses: int) -> list[Callable[[], None]]:
        often = [step for step in STEPS if step not in ONCE]
        once = [step for step in STEPS if step in ONCE]
        if self.fault:
            often, once = ["journal open"], []
        steps = [RANDOM] * (0 if self.fault else self.wanted // 4)
        steps += [often[i % len(often)] for i in range(self.wanted - len(steps) - len(once))]
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
        """Send the next period's input when a process has nothing left to do."""
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
        """One life that is killed: at a step, or anywhere."""
        if step == RANDOM:
            at = self.rng.choice(["owned", "recovered", "drawn", "commit", "publish"])
            most = self.rng.choice([0.002, 0.02, 0.2, 1.0])
            order = {"step": at, "after": self.rng.uniform(1e-6, most)}
        else:
            most = 1 if step in {"owned", "recovered", *ONCE} else 2
            order = {"step": step, "call": self.rng.randrange(most)}
        life = self.nursery.start(**order)
        code = self._fed(life, lambda: life.code is not None)
        if code == -signal.SIGKILL:
            self.report.kills[step] += 1
        else:
            self.report.notes.append(f"not killed at {step}: code {code}: {life.text()}")

    def _kill_broker(self, which: int) -> None:
        """The broker dies while a releaser works, or while its transaction is open."""
        go = self.folder / f"go-broker-{which}"
        held = [None, "journal open", "release open"][which % 3]
        order = {"step": held, "hold": str(go)} if held else {}
        life = self.nursery.start(**order)
        if held:
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
        """The first is held at a step while a second one goes on; the first must end, fenced."""
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
            f"first held at '{step}': code {first.code}; second goes on: {alive}, SIGTERM: {ended}"
        )
        self.report.seconds_instances.append(line)
        if first.code != 3 or not alive or ended != 0 or "taken this role" not in first.text():
            self.report.notes.append(f"{line}: {code}: {first.text()} {second.text()}")

    def _pause(self, which: int) -> None:
        """A releaser is stopped in a commit for longer than its transaction may last, alone."""
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

    def _judge(self, seen: list[Seen], tried: list[Seen]) -> None:
        """Compare everything that can be read with the journal and with a calm run."""
        report, entries = self.report, self.days.entries()
        wanted = {}
        for entry in entries:
            for r in entry.public_records():
                name = dict(r.headers)["ce_id"].decode()
                wanted[name] = (r.time or 1, r.key, r.value, r.headers)
        with self.days.opened_public() as log:
            public = [
                (r.offset, (r.time, r.key, r.value, r.headers)) for r in everything(log, TOPIC)
            ]
        with self.days.opened() as log:
            letters = everything(log, DEAD_LETTERS)
            committed = {r.offset for r in everything(log, JOURNAL)}
        held = [found for _, found in public]
        count = Counter(held)
        strange = {s.id for s in seen if wanted.get(s.id) != (s.time, s.key, s.value, s.headers)}
        decisions = [s for s in tried if s.id.endswith("/manifest")]
        twice = Counter(s.id for s in decisions if s.offset in committed)
        calm, made = self.calm.decided(), self.days.decided()
        accounting = made[-1]["accounting"] or {}
        rejected = sum(accounting.get("rejected", {}).values())
        fates = sum(accounting.get(f, 0) for f in ("accepted", "superseded", "pending"))
        report.periods = len(entries) - 1
        report.public_records, report.seen_uncommitted = len(held), len(seen)
        report.aborted_public = len({s.offset for s in seen} - {o for o, _ in public})
        report.aborted_decisions = len([s for s in decisions if s.offset not in committed])
        report.cells = accounting
        report.wrong = {
            "duplicates": sum(n - 1 for n in count.values()),
            "missing": len(set(wanted.values()) - set(held)) + abs(len(calm) - len(made)),
            "out of order": int(held != list(wanted.values())),
            "wrong totals": sum(a != b for a, b in zip(calm, made, strict=False)),
            "periods with a second draw visible": len({name.split("/")[0] for name in strange}),
            "periods with two committed decisions": sum(n > 1 for n in twice.values()),
            "periods drawn after their decision": self._drawn_again(),
            "cells lost or made up": accounting.get("received", -1) - rejected - fates,
            "dead letters otherwise than counted": int(
                self.days.reasons() != accounting.get("rejected") or not letters
            ),
            "verify": command(["verify", str(self.days.file)]),
        }

    def _drawn_again(self) -> int:
        """Draws for a period that a finished commit had decided before this process began."""
        decided, drawn, found = 0, dict[str, int](), 0
        born: dict[str, int] = {}
        for line in self.nursery.trace.read_text().splitlines():
            pid, _, what = line.partition(" ")
            if what == "recovered":
                born[pid] = decided
            elif what.startswith("draw "):
                drawn[pid] = int(what.removeprefix("draw "))
                found += drawn[pid] <= born.get(pid, 0)
            elif what == "committed":
                decided = max(decided, drawn[pid])
        return found


def run(
    kills: int,
    periods: int,
    *,
    broker_kills: int,
    second: int,
    pauses: int = 0,
    libs: Path,
    fault: str = "",
    made: Any = Single,
) -> Report:
    with TemporaryDirectory(prefix="stream-dp-") as folder:
        broker = made(Path(folder) / "broker", libs=libs)
        broker.start()
        try:
            matrix = Matrix(broker, Path(folder), kills, periods, fault=fault)
            return matrix.run(broker_kills=broker_kills, second=second, pauses=pauses)
        finally:
            broker.stop()


def main() -> int:
    kills = int(sys.argv[1]) if sys.argv[1:] else 220
    others = {"broker_kills": 6, "second": 5, "pauses": 4}
    report = run(kills, max(16, kills), libs=FOLDER / "libs", **others)
    print(report.table())
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
