"""The gate decides by its noisy count: where noisy answers coincide, every public byte does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kit.panels import declaration, markers, script
from noninterference.coupled import Coupled, Vector, public_side, recorded_with_gates, run
from noninterference.test_public_side import CHANGES, Batches

from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.journal import gates

PERIODS, HELD = 4, 3
TEXT = declaration(rho=0.6, periods=PERIODS).replace(
    "[study.population]", "[study.gate]\nrho = 0.1\nleast = 0.5\n\n[study.population]"
)


def batches() -> Batches:
    """A month that an operator closes in the end, if the gate holds it."""
    sent = script(PERIODS)
    at = sent[HELD - 1].index(markers(HELD)[-1]) + 1
    sent[HELD - 1][at:at] = [close_marker(HELD, p, despite_gate=True) for p in range(2)]
    return sent


def truth(folder: Path, sent: Batches) -> tuple[list[Vector], list[int]]:
    """The true answers in the order of the draws, and which of them are the gates'."""
    with recorded_with_gates() as (noises, drawn):
        run(folder, TEXT, sent, Coupled())
    return noises, drawn


@pytest.mark.parametrize("change", ["late", "nobody at all"])
def test_a_gated_study_does_not_tell_inputs_apart(
    change: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = batches(), CHANGES[change](batches())
    true, counts = truth(folder / "true", one)
    answers = [m + 3 for m in true]
    assert len(counts) == PERIODS
    for number, place in enumerate(counts, 1):
        answers[place] = np.array([5 if number == HELD else 30])
    first = run(folder / "one", TEXT, one, Coupled(true, answers))
    other_true, _ = truth(folder / "other true", other)
    again = run(folder / "other", TEXT, other, Coupled(other_true, answers))
    assert public_side(first, capsys) == public_side(again, capsys)
    for place in (first, again):
        drawn = gates(place.entries())
        assert {n: entry.gate.held for n, entry in drawn.items()} == {
            n: n == HELD for n in range(1, PERIODS + 1)
        }


@pytest.mark.parametrize("count", [15, 16])
def test_the_noisy_count_alone_decides(
    count: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a month in which everybody answers, and of one in which nobody does."""
    decisions = []
    nobody: Callable[[Batches], Batches] = CHANGES["nobody at all"]
    for name, sent in {"all": script(PERIODS), "none": nobody(script())}.items():
        true, counts = truth(folder / f"{name} true", sent)
        answers = [np.array([count]) if i in counts else m for i, m in enumerate(true)]
        source = Coupled(true, answers)
        try:
            place = run(folder / name, TEXT, sent, source)
        except AssertionError:
            decisions.append("held")
        else:
            decisions.append("closed")
            assert not any(e.gate.held for e in gates(place.entries()).values())
    assert decisions == ["held" if count < 16 else "closed"] * 2
