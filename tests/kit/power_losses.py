"""Losses of power at any moment of a life, and what is wrong afterwards."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sqlite3
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import pytest

from kit.file_calls import FileCall, Name, Remove, Sync, recorded
from kit.lossy_disk import MODES, LossyDisk
from kit.power_lives import LIVES, Life, identities_pass
from kit.signals import restored_handlers
from stream_dp.study.topics import RELEASES

_MOST_SECONDS = 120  # of going on after a loss


@dataclass(frozen=True)
class Loss:
    """A loss of power after some calls of a life. seed: of the half that is left."""

    after: int
    mode: str
    seed: int = 0


@dataclass
class RecordedLife:
    """A life that was recorded once, and loses its power as often as asked.

    folder: an empty folder for the study and the states.
    """

    life: Life
    folder: Path
    calls: list[FileCall] = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self._prepare()
        arguments = ["-W", "ignore", "-m", "kit.power_lives", self.life.name, str(self._lived)]
        self.calls = recorded(arguments, self._lived, self.folder / "trace")
        (self.folder / "trace").unlink()

    def _prepare(self) -> None:
        """Prepares the life, and lives a copy here, so that children find everything imported."""
        warm = self.folder / "warm"
        with (
            redirect_stdout(StringIO()),
            restored_handlers(),
            pytest.MonkeyPatch.context() as patch,
        ):
            identities_pass(patch)
            self.life.prepare(self._lived)
            for copied in (self._before, warm):
                shutil.copytree(self._lived, copied)
            self.life.live(warm)
            self.life.go_on(warm, True)
        shutil.rmtree(warm)

    @property
    def _lived(self) -> Path:
        return self.folder / "lived"

    @property
    def _before(self) -> Path:
        return self.folder / "before"

    def losses(self, count: int, rng: random.Random) -> list[Loss]:
        """Losses at random moments, half of them at a sync, a name or a removal, or just after."""
        turns = [
            i for i, call in enumerate(self.calls, 1) if isinstance(call, Sync | Name | Remove)
        ]
        found = [Loss(len(self.calls), mode) for mode in MODES]
        while len(found) < count:
            after = rng.randint(1, len(self.calls))
            if len(found) % 2:
                after = min(rng.choice(turns) + rng.choice([-1, 0, 1]), len(self.calls))
            found.append(Loss(after, MODES[len(found) // 2 % len(MODES)], rng.getrandbits(32)))
        return found[:count]

    def control_losses(self, count: int, rng: random.Random) -> list[Loss]:
        """Losses when a sync that did nothing must show."""
        first = len(self.calls) if self.life.at_end else self._first_news()
        modes = [mode for mode in MODES if mode != "journalled"]
        return [
            Loss(rng.randint(first, len(self.calls)), modes[i % 2], rng.getrandbits(32))
            for i in range(count)
        ]

    def _first_news(self) -> int:
        """The number of calls after which a reader sees more than before the life."""
        before = self._rows(self._before)
        low, high = 0, len(self.calls)
        while low < high:
            middle = (low + high) // 2
            disk = self._disk()
            for call in self.calls[:middle]:
                disk.apply(call, "strict")
            if len(self._seen(disk)) > len(before):
                high = middle
            else:
                low = middle + 1
        return low

    def judged(
        self, losses: Sequence[Loss], *, control: bool = False
    ) -> Iterator[tuple[Loss, str]]:
        """What is wrong after each loss, in words; empty if nothing is.

        control: whether the disk ignores the syncs that the life names.
        """
        for mode in MODES:
            disk, done = self._disk(control=control), 0
            of_mode = [loss for loss in losses if loss.mode == mode]
            for loss in sorted(of_mode, key=lambda loss: loss.after):
                for call in self.calls[done : loss.after]:
                    disk.apply(call, mode)
                done = loss.after
                yield loss, self._fault(disk, loss)

    def _disk(self, *, control: bool = False) -> LossyDisk:
        ignored = self.life.ignored if control else ()
        return LossyDisk(self._before, self._lived, lambda path: path.endswith(ignored))

    def _fault(self, disk: LossyDisk, loss: Loss) -> str:
        seen, left = self._seen(disk), self.folder / "left"
        disk.write_left(left, loss.mode, random.Random(loss.seed))
        try:
            failure = self._child(lambda: self.life.go_on(left, loss.after == len(self.calls)))
            if failure:
                return failure
            now = self._rows(left)
            return "" if now[: len(seen)] == seen else f"changed: {len(seen)} seen, {len(now)} now"
        finally:
            shutil.rmtree(left)

    def _seen(self, disk: LossyDisk) -> list[tuple[object, ...]]:
        """The public records that a reader sees now."""
        folder = self.folder / "seen"
        disk.write_now(folder)
        try:
            return self._rows(folder)
        finally:
            shutil.rmtree(folder)

    def _rows(self, folder: Path) -> list[tuple[object, ...]]:
        path = folder / self.life.public
        if not path.exists() or not path.stat().st_size:
            return []
        with closing(sqlite3.connect(path)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'records'").fetchone():
                return []
            query = (
                "SELECT offset, key, value, headers FROM records WHERE topic = ? ORDER BY offset"
            )
            return db.execute(query, (RELEASES,)).fetchall()

    def _child(self, act: Callable[[], None]) -> str:
        """Acts in a child; returns its failure, or nothing."""
        failure = self.folder / "failure"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            gc.disable()
            signal.alarm(_MOST_SECONDS)
            output = os.open(self.folder / "output", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            try:
                identities_pass(pytest.MonkeyPatch())
                act()
                os._exit(0)
            except BaseException:
                failure.write_text(traceback.format_exc())
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return ""
        lines = failure.read_text().splitlines() if failure.exists() else ["killed"]
        said = (self.folder / "output").read_text(errors="replace").splitlines()
        failure.unlink(missing_ok=True)
        return f"{lines[-1]}; {said[-1] if said else ''}"


@dataclass
class Counts:
    """The losses of a life, those with a fault, and those of the control that show one."""

    losses: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[Loss, str]] = field(default_factory=list)
    control: int = 0
    found: int = 0


def lose_power(name: str, folder: Path, *, losses: int, control: int, seed: int) -> Counts:
    """Records a life, and judges losses of power with and without syncs that work."""
    life, rng, counts = RecordedLife(LIVES[name], folder), random.Random(seed), Counts()
    for loss, fault in life.judged(life.losses(losses, rng)):
        counts.losses[loss.mode] += 1
        if fault:
            counts.faults.append((loss, fault))
    for _, fault in life.judged(life.control_losses(control, rng), control=True):
        counts.control += 1
        counts.found += bool(fault)
    return counts
