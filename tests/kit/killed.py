"""A releaser in a process of its own that can be killed, and what must hold afterwards."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import pytest

from kit.panels import Noiseless, StudyFolder, decided, fix_secrets, shared
from stream_dp.client import PublicLog
from stream_dp.planning.plan import plan_study
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.storage import journal_checks
from stream_dp.study.topics import RELEASES, REPORTS
from stream_dp.studyfile import load_study

MOST_SECONDS = 600


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process loses nothing it wrote there."""
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    folder = Path(mkdtemp(prefix="stream-dp-", dir=shared if usable else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class KilledReleaser:
    """Runs the releaser of a study in child processes, one after the other, that can be killed.

    seen: the longest state of the public log that an analyst could read so far.
    """

    place: StudyFolder
    kills: int = 0
    seen: list[tuple[Any, ...]] = field(default_factory=list)

    def start(self, at: Callable[[str, Releaser], None] = lambda name, releaser: None) -> int:
        """The id of a child that runs until it is idle. at: called in it at every step."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads, JAX's too: no child uses them
            child = os.fork()
        if child == 0:
            gc.disable()  # what it inherits is not looked through, nor copied
            try:
                self._live(at)
                os._exit(0)
            except BaseException:
                (self.place.folder / "failure").write_text(traceback.format_exc())
                os._exit(1)
        return child

    def _live(self, at: Callable[[str, Releaser], None]) -> None:
        signal.alarm(MOST_SECONDS)
        fix_secrets(pytest.MonkeyPatch())
        trace = os.open(self.place.folder / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def noted(line: str) -> None:
            os.write(trace, f"{line}\n".encode())

        with self.place.releaser(source=Noiseless(lambda t: noted(f"draw {t}"))) as releaser:

            def step(name: str) -> None:
                noted(name)
                at(name, releaser)

            shared(releaser, at=step)
            releaser.run(until_idle=True)

    def wait(self, child: int) -> bool:
        """True where the child came to its end, False where it was killed."""
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            pytest.fail((self.place.folder / "failure").read_text())
        self.kills += code != 0
        self._nothing_redrawn()
        self._look()
        return code == 0

    def run(self, at: Callable[[str, Releaser], None] = lambda name, releaser: None) -> bool:
        return self.wait(self.start(at))

    def run_to(self, call: int, name: str | None = None) -> bool:
        """Run to the call of that number (from 0) of a step, or of any step, and die there."""
        calls = 0

        def at(step: str, _: Releaser) -> None:
            nonlocal calls
            if name in (None, step):
                if calls == call:
                    die()
                calls += 1

        return self.run(at)

    def run_for(self, seconds: float) -> bool:
        """Run for that long, then be killed wherever that is."""
        child = self.start()
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return self.wait(child)

    def trace(self) -> list[str]:
        """Steps and draws of all children, and the last period in the journal after each."""
        file = self.place.folder / "trace"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def _nothing_redrawn(self) -> None:
        """No period is drawn once it is decided, and every decision reached is in the journal."""
        drawn, decided = 0, 0
        for line in self.trace():
            if line.startswith("draw "):
                drawn = int(line.removeprefix("draw "))
                assert drawn == decided + 1
            elif line == "committed":
                decided = drawn
            elif line.startswith("journal "):
                decided = int(line.removeprefix("journal "))
        numbers = [entry.number for entry in self.place.entries()]
        assert numbers == list(range(len(numbers)))
        assert decided <= max(numbers, default=0) <= drawn
        with (self.place.folder / "trace").open("a") as trace:
            trace.write(f"journal {max(numbers, default=0)}\n")

    def _look(self) -> None:
        """Whatever an analyst could read before is still there, unchanged."""
        try:
            now = self.place.published()
        except sqlite3.Error:
            return
        assert now[: len(self.seen)] == self.seen
        self.seen = now


def check(
    killed: KilledReleaser, expected: list[dict[str, Any]], *, snapshots_lost: bool = False
) -> None:
    """The study is finished, and nothing tells it from one that was never interrupted.

    expected: what `decided` says of that one.
    """
    place = killed.place
    entries = place.entries()
    assert decided(entries) == expected
    to_publish = [record for entry in entries for record in entry.public_records()]
    assert place.rows(RELEASES) == [
        (0, i, r.time, r.key, r.value, msgspec.msgpack.encode(r.headers))
        for i, r in enumerate(to_publish)
    ]
    assert killed.seen == place.rows(RELEASES)
    study, _ = load_study(place.file)
    with place.log() as log:
        ledger = journal_checks.check_journal(entries, plan_study(study), log.describe(REPORTS))
    assert ledger == plan_study(study).ledger().charge(
        *(c for n in range(1, len(entries)) for c in plan_study(study).charges(n))
    )
    cells = entries[-1].message.head["accounting"]
    assert place.reasons() == cells["rejected"]
    rejected = sum(cells["rejected"].values())
    assert (
        cells["received"] == cells["accepted"] + cells["superseded"] + rejected + cells["pending"]
    )
    with place.public(readonly=True) as public:
        PublicLog(public).verify()
    if not snapshots_lost:
        kept = sorted(path.name for path in place.snapshots.iterdir())
        assert kept == [entry.snapshot[0] for entry in entries[-2:]]
