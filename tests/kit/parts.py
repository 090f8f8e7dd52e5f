"""A study folder whose periods are closed in parts, by an aggregator in this process or others."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.panels import PARTITIONS, StudyFolder, decided, declaration
from kit.studies import toml_lines
from stream_dp.log.log import Missing, Record
from stream_dp.services.intake.markers import MARKER, announce_markers
from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.parts.engines import Processes
from stream_dp.services.releaser.ordered_parts import Aggregation
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import CLOSES, DEAD_LETTERS, MANIFESTS, ORDERS, REPORTS
from stream_dp.studyfile import load_study


def in_parts(text: str = "", parts: int = 4) -> str:
    """The text of a study file whose last table is `[run]`, with the engine of parts."""
    return (text or declaration()) + toml_lines({"engine": "processes", "parts": parts}) + "\n"


def outcome(place: StudyFolder) -> list[dict[str, Any]]:
    """What is decided, but for the snapshots, which are other files."""
    return [{k: v for k, v in d.items() if k != "population"} for d in decided(place.entries())]


def letters(place: StudyFolder) -> set[tuple[Any, ...]]:
    """Keys, values and headers of the dead letters."""
    with place.log() as log:
        read = log.read(DEAD_LETTERS, {0: 0}, 100_000, 0)
    return {(letter.key, letter.value, letter.headers) for letter in read.records}


@dataclass
class PartsFolder(StudyFolder):
    """The small study, closed in parts. parts: how many."""

    parts: int = 4

    def __post_init__(self) -> None:
        if "engine" not in self.text:
            self.text = in_parts(self.text, self.parts)
        super().__post_init__()

    def copy(self, folder: Path) -> PartsFolder:
        shutil.copytree(self.folder, folder)
        return PartsFolder(folder, self.text, self.clock, self.parts)

    def send(self, records: Sequence[Record]) -> None:
        """Sends records; markers among them are announced before, as `stream-dp close` does."""
        with self.log() as log:
            log.create({REPORTS: PARTITIONS, CLOSES: 1})
            numbers = [int(v) for r in records for n, v in r.headers if n == MARKER]
            for number in sorted(set(numbers)):
                announce_markers(log, number)
        super().send(records)

    def releaser(self, **how: Any) -> Any:
        run = load_study(self.file)[1]
        parts = Aggregation(self.parts, mapping=run.input.hash)
        return super().releaser(**{"aggregation": parts, **how})

    def aggregate(self, *, processes: int = 1, most: int = 1 << 18, **how: Any) -> None:
        """Answers every order that is open, with its tasks in this process by default.

        Other processes begin as copies before the log is open, as the command begins them.
        """
        study, _ = load_study(self.file)
        engine = how.pop("engine", None) or Processes(processes, most)
        engine.begin()
        with self.log() as log:
            snapshots = Snapshots("small-snapshots", self.folder)
            Aggregator(self.file, study, log, snapshots, engine=engine, **how).run(until_idle=True)

    def run(self, *, aggregator: dict[str, Any] | None = None, **how: Any) -> bool:
        """Runs the releaser and an aggregator in turn until nothing is left to do."""
        while True:
            done = super().run(**how)
            # An order that lacks a file of the period before is answered as well.
            answered = self.keys(ORDERS) <= {k.split(b"/lost")[0] for k in self.keys(MANIFESTS)}
            if done or answered:
                return done
            self.aggregate(**(aggregator or {}))

    def keys(self, topic: str) -> set[bytes]:
        """The keys of a topic's records; none without the topic."""
        with self.log() as log, suppress(Missing):
            return {r.key for r in log.read(topic, {0: 0}, 10_000, 0).records if r.key}
        return set()


@dataclass(frozen=True)
class DieOnce:
    """Kills the process that first comes to a step; can be sent to another process.

    mark: a file that is made then.
    """

    step: str
    mark: Path

    def __call__(self, step: str) -> None:
        if step == self.step:
            with suppress(FileExistsError):
                self.mark.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DieAtEach:
    """Kills the process that first comes to each of several steps.

    folder: where a file is made for each.
    """

    steps: tuple[str, ...]
    folder: Path

    def __call__(self, step: str) -> None:
        if step in self.steps:
            DieOnce(step, self.folder / step)(step)


@dataclass(frozen=True)
class MoveOnce:
    """Moves a file at the first of a step; can be sent to another process."""

    step: str
    file: Path
    place: Path

    def __call__(self, step: str) -> None:
        if step == self.step:
            with suppress(FileNotFoundError):
                self.file.rename(self.place)
