"""Backups of a study at random moments of its releaser, each restored and run on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from kit.panels import Noiseless, adapt, fix_secrets
from stream_dp.errors import UserError
from stream_dp.log.log import following
from stream_dp.privacy.noise import Draw
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage.backup_manifest import read_manifest
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.file_stores import file_store
from stream_dp.services.storage.study_backup import back_up
from stream_dp.services.storage.study_restore import Restored, restore
from stream_dp.study.topics import RELEASES

PATIENCE = 300.0  # seconds
Run: TypeAlias = Callable[[Callable[[str], None]], object]


class Repeated(Noiseless):
    """No noise, and the same coins for the same demand, so that a period has the same bytes."""

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        sizes = [size for _, size in demand]
        coins = np.random.default_rng([len(sizes), *sizes])
        return Draw(tuple(np.zeros(size, np.int64) for size in sizes), coins)


class Stepped:
    """A function that runs in a thread and waits at each of its steps. run: takes `at`."""

    def __init__(self, run: Run) -> None:
        self._arrived, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._free = False
        self._error: list[BaseException] = []
        self.done = False
        self._thread = threading.Thread(target=self._run, args=(run,))
        self._thread.start()
        self._wait()

    def _run(self, run: Run) -> None:
        try:
            run(self._at)
        except BaseException as error:
            self._error.append(error)
        self.done = True
        self._arrived.release()

    def _at(self, step: str) -> None:
        if not self._free:
            self._arrived.release()
            assert self._go.acquire(timeout=PATIENCE)

    def _wait(self) -> None:
        assert self._arrived.acquire(timeout=PATIENCE)

    def go(self, steps: int) -> None:
        """Lets it take this number of steps."""
        for _ in range(steps):
            if not self.done:
                self._go.release()
                self._wait()

    def end(self) -> None:
        """Lets it run to its end. Raises what it raised."""
        self._free = True
        self._go.release()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        for error in self._error:
            raise error


def run_on(file: Path, at: Callable[[str], None] = lambda step: None, **how: Any) -> bool:
    """Runs the releaser of a study in this process, with noise that is the same in each run."""
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        process = releaser_of(Deployment.load(file))
        adapt(process, source=Repeated(), at=at, **how)
        with closing(process.log), closing(process.public):
            return process.run(until_idle=True)


def published(file: Path) -> list[tuple[bytes | None, bytes | None, object]]:
    """Key, value and headers of every public record."""
    with closing(Deployment.load(file).public(readonly=True)) as log:
        records = following(log, RELEASES, dict.fromkeys([0], 0))
        return [(record.key, record.value, record.headers) for record in records]


def live_backups(
    file: Path, folder: Path, count: int, seed: int, run: Run | None = None
) -> list[Path]:
    """Backs a study up at random moments of its processes, which go on meanwhile.

    Every second backup goes on from the one before it. Those that `backup` refuses are left out.

    run: runs the processes with `at`; the releaser by default.
    """
    rng = np.random.default_rng(seed)
    setting, places = Deployment.load(file), list[Path]()
    process = Stepped((lambda at: run_on(file, at)) if run is None else run)
    process.go(6)  # until the first message is public
    for number in range(count):
        process.go(int(rng.choice([0, 1, 2, 4])))
        place = folder / f"backup-{number}"
        if number % 2 and places:
            copy_of(places[-1], place)
        with suppress(UserError):
            back_up(
                setting,
                file_store(str(place)),
                lambda step: process.go(int(rng.choice([0, 0, 1, 3, 9]))),
            )
            places.append(place)
    process.end()
    return places


def copy_of(source: Path, target: Path) -> None:
    """A copy of a backup with its modes."""
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        (target / path.name).touch(mode=0o600)
        (target / path.name).write_bytes(path.read_bytes())


def restored(
    place: Path, folder: Path, text: str, name: str = "study.toml"
) -> tuple[Path, Restored]:
    """A backup restored into a new folder.

    text: the study file, with logs in SQLite files. name: the file's.
    """
    folder.mkdir()
    file = folder / name
    file.write_text(text)
    store = file_store(str(place))
    manifest = read_manifest(store)
    assert manifest is not None
    return file, restore(file, store, str(place), manifest.head)
