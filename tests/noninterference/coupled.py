"""Runs of one study on different inputs, with noise coupled so that the noisy answers coincide."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from kit.events import lines_to
from kit.panels import Clock, StudyFolder, adapt, fix_secrets
from numpy.typing import NDArray

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.mechanism_interface import Step
from stream_dp.continual.window.window import FixedWindow
from stream_dp.log.log import Record
from stream_dp.planning import panel_errors
from stream_dp.privacy.noise import Draw
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser import decision
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.study.noisy_gate import NoisyGate

Vector = NDArray[np.int64]
START = 1_609_459_200.0
DAY = 86_400.0


class Coupled:
    """Noise that makes the measured answers equal to given ones; the same coins in every run.

    measured: the true answers of this run, in the order of the draws; answers: the noisy ones
    that it shall give. Without both, no noise.
    """

    simulated = True

    def __init__(
        self, measured: Sequence[Vector] | None = None, answers: Sequence[Vector] | None = None
    ) -> None:
        self._coins = np.random.default_rng(7)
        self._noise: Iterator[Vector] | None = None
        if measured is not None and answers is not None:
            self._noise = (a - m for a, m in zip(answers, measured, strict=True))

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        sizes = [size for _, size in demand]
        noise = np.zeros(sum(sizes), np.int64)
        if self._noise is not None and sizes:
            noise = next(self._noise)
        return Draw(tuple(np.split(noise, np.cumsum(sizes)[:-1])) if sizes else (), self._coins)


@contextmanager
def recorded() -> Iterator[list[Vector]]:
    """The true answers that the mechanisms measure, in order. Confidential."""
    noises: list[Vector] = []

    def noting(step: Callable[..., tuple[Any, Step | None]]) -> Callable[..., Any]:
        def noted(self: Any, state: Any, counts: Vector, draw: Draw) -> tuple[Any, Step | None]:
            after, output = step(self, state, counts, draw)
            if output is not None:
                noises.append(output.measurements.values - np.concatenate(draw.noise))
            return after, output

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for mechanism in (FixedWindow, Cumulative, Joint):
            patch.setattr(mechanism, "step", noting(mechanism.step))
        # Nothing of people that are simulated before the study begins.
        patch.setattr(panel_errors, "simulated_errors", lambda *_, **__: ())
        yield noises


@contextmanager
def recorded_with_gates() -> Iterator[tuple[list[Vector], list[int]]]:
    """The true answers like `recorded`, and which of them are the gates', all of which close."""
    gates: list[int] = []
    with recorded() as noises, pytest.MonkeyPatch.context() as patch:
        decide_gate = decision.decide_gate

        def noted(*arguments: Any, people: int, **others: Any) -> Any:
            gates.append(len(noises))
            noises.append(np.array([people]))
            return decide_gate(*arguments, people=people, **others)

        patch.setattr(decision, "decide_gate", noted)
        patch.setattr(NoisyGate, "holds", lambda self, people: False)
        yield noises, gates


def run(
    folder: Path, text: str, batches: Sequence[Sequence[Record]], source: Coupled
) -> StudyFolder:
    """Send batch after batch, at fixed times, and release after each; what it says in a file."""
    clock = Clock(START)
    place = StudyFolder(folder, text, clock)
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        for records in batches:
            place.send(records)
            clock.now += 31 * DAY
            place.run(source=source, tell=lines_to(said), estimates=True)
        clock.now += 31 * DAY
        assert place.run(source=source, tell=lines_to(said), estimates=True)
    (folder / "said").write_text("\n".join(said))
    return place


def releasers_with(patch: pytest.MonkeyPatch, source: Coupled) -> None:
    """Releasers of `run` draw from this source, at a fixed time."""
    made = Releaser.__init__

    def fixed(self: Releaser, *arguments: Any, **others: Any) -> None:
        made(self, *arguments, **others)
        adapt(self, source=source, clock=Clock(), steady=Clock())

    patch.setattr(Releaser, "__init__", fixed)


def measured(folder: Path, text: str, batches: Sequence[Sequence[Record]]) -> list[Vector]:
    with recorded() as noises:
        run(folder, text, batches, Coupled())
    return noises


class CoupledRun(NamedTuple):
    """A run on one input, and the noisy answers that it gave."""

    place: StudyFolder
    answers: list[Vector]


def coupled_run(
    folder: Path,
    text: str,
    batches: Sequence[Sequence[Record]],
    answers: list[Vector] | None = None,
) -> CoupledRun:
    """A run with the given noisy answers; by default with random ones near the true ones."""
    truth = measured(folder / "truth", text, batches)
    rng = np.random.default_rng(11)
    answers = answers or [m + rng.integers(-9, 10, m.shape) for m in truth]
    return CoupledRun(run(folder / "run", text, batches, Coupled(truth, answers)), answers)


COMMANDS = (
    ["releases"],
    ["releases", "--json"],
    ["verify"],
    ["verify", "--json"],
    ["estimate"],
    ["estimate", "pairs", "pattern 1 1"],
    ["estimate", "pairs", "at-least 1 of last 2 poverty=1", "--json"],
    ["estimate", "working", "total at-least 2", "--count"],
    ["export", "pairs", "pairs.csv"],
    ["export", "pairs", "pairs.parquet"],
    ["export", "working", "working.csv", "--period", "2021-02"],
    ["export", "pairs", "described"],
)


def public_side(
    place: StudyFolder,
    capsys: pytest.CaptureFixture[str],
    commands: Sequence[Sequence[str]] = COMMANDS,
) -> dict[str, bytes | str]:
    """Everything that an analyst can see, byte for byte, and the messages of the releaser.

    commands: what the analyst does with the public log. All of them read its file alone.
    """
    seen: dict[str, bytes | str] = {"file": place.public_db.read_bytes()}
    seen["said"] = (place.folder / "said").read_text()
    capsys.readouterr()
    here = Path.cwd()
    os.chdir(place.folder)
    try:
        for name, *options in commands:
            assert main([name, "sqlite:small-public.db", *options]) == 0
            out, error = capsys.readouterr()
            seen[" ".join([name, *options])] = out + error
        for pattern in ("*.csv", "*.parquet", "described/*"):
            seen |= {str(file): file.read_bytes() for file in Path().glob(pattern)}
    finally:
        os.chdir(here)
    return seen


def of(person: str) -> Callable[[Record], bool]:
    """Whether a record is a report of this person."""

    def check(record: Record) -> bool:
        try:
            return bool(json.loads(record.value or b"")["person"] == person)
        except (ValueError, KeyError, TypeError):
            return False

    return check
