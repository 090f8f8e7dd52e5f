"""An audit of all releases together finds each of ten planted faults, and blames no sound study.

A fault is planted in the product after the worst pair is known. Its study is then read and run
again, so the fault may sit in the declaration's costs, the plan, the population or the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kit.audited_studies import audited_study, gated_study
from kit.weak_noise import WeakNoise

import stream_dp
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.window.window import FixedWindow
from stream_dp.planning import plan
from stream_dp.population.population import Population
from stream_dp.privacy.noise import Draw, NoiseSource, SeededNoise
from stream_dp.services.audit.audit import AuditResult, PreparedAudit
from stream_dp.services.audit.histories import WorstPair
from stream_dp.services.audit.study_runs import StudyRuns
from stream_dp.study.families import Kind
from stream_dp.study.noisy_gate import NoisyGate

Patch = pytest.MonkeyPatch


def strata_study() -> dict[str, Any]:
    """Patterns and totals of each of two strata, between which a replaced person may move."""
    tables = audited_study(Kind.WINDOW)
    tables["attributes"]["sex"] |= {"fixed": True, "missing": "absent"}
    (total,) = audited_study(Kind.CUMULATIVE)["releases"]
    tables["releases"].append(total | {"name": "totals"})
    tables["releases"] = [
        one | {"strata": "sex", "rows": 60, "rho": "1/4"} for one in tables["releases"]
    ]
    return tables


def selecting_study() -> dict[str, Any]:
    """Tables of nine people whose pairs are selected: one person decides which pair has most."""
    tables = audited_study(Kind.MIXTURE, rho="1/10")
    tables["study"]["population"] = {"size": 9}
    tables["attributes"]["home"] = {"values": ["a", "b"], "missing": "a"}
    tables["releases"][0] |= {"attributes": ["work", "sex", "home"], "rounds": 1, "per_round": 1}
    return tables


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "windows": lambda: gated_study(Kind.WINDOW),
    "totals": lambda: gated_study(Kind.CUMULATIVE),
    "tables": lambda: gated_study(Kind.MIXTURE),
    "strata": strata_study,
    "selections": selecting_study,
}


@cache
def sound_audit(name: str) -> PreparedAudit:
    """The audit of a sound study, with the worst pair that a search finds, or found before.

    Of selections, each person of the pair has another pair of columns selected.
    """
    study = stream_dp.parse_study(STUDIES[name]())
    if name == "selections":
        return PreparedAudit(study, None, StudyRuns(study), WorstPair((0, 1, 0), (1, 0, 0), 0), 1)
    if name in {"windows", "totals"}:
        pair = WorstPair((1, 1), (2, 0), 0.5)
        return PreparedAudit(study, None, StudyRuns(study), pair, 4)
    return PreparedAudit.of(study)


def audited(name: str, runs: int, source: NoiseSource) -> AuditResult:
    """An audit of a study as it is now, with the worst pair of the sound one."""
    study = stream_dp.parse_study(STUDIES[name]())
    sound = sound_audit(name)
    return replace(sound, study=study, audited=StudyRuns(study)).run(source, runs)


class OneSidedNoise(SeededNoise):
    """Noise that is never negative."""

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        drawn = super().draw(demand)
        return Draw(tuple(np.abs(noise) for noise in drawn.noise), drawn.coins)


class LateNoise(SeededNoise):
    """Noise whose first draw for a panel is forgotten."""

    def draw(self, demand: Sequence[tuple[Any, int]]) -> Draw:
        drawn = super().draw(demand)
        self.draws = getattr(self, "draws", 0) + 1
        if self.draws % 4 == 2:  # of two periods of a panel, and two of the gate
            return Draw(tuple(0 * noise for noise in drawn.noise), drawn.coins)
        return drawn


class EagerSelections(SeededNoise):
    """Selections with hardly any noise."""

    def top(self, scores: Any, picks: int, variance: Fraction) -> Any:
        return super().top(scores, picks, variance / 10**6)


def half_the_window(patch: Patch) -> None:
    sound = FixedWindow.demand
    patch.setattr(FixedWindow, "demand", lambda s, t: [(v / 2, n) for v, n in sound(s, t)])


def double_count(patch: Patch) -> None:
    sound = Population.close

    def close(self: Population, room: int | None = None) -> Any:
        closed = sound(self, room)
        return SimpleNamespace(counts={name: 2 * n for name, n in closed.counts.items()})

    patch.setattr(Population, "close", close)


def half_the_charges(patch: Patch) -> None:
    sound = Cumulative.charges
    cost = sound.func  # type: ignore[attr-defined]
    patch.setattr(Cumulative, "charges", property(lambda self: [c / 2 for c in cost(self)]))


def loud_gate(patch: Patch) -> None:
    patch.setattr(NoisyGate, "demand", property(lambda gate: ((gate.variance / 100, 1),)))


def one_release_of_a_stratum(patch: Patch) -> None:
    patch.setattr(plan, "composed_cost", lambda strata, costs: max(costs.values()))


def last_month_alone(patch: Patch) -> None:
    sound = plan._batch

    def planned(*arguments: Any) -> Any:
        batch = sound(*arguments)
        return replace(batch, charges=(Fraction(0), *batch.charges[1:]))

    patch.setattr(plan, "_batch", planned)


def nothing(patch: Patch) -> None:
    return


def weak(seed: int) -> NoiseSource:
    return WeakNoise(SeededNoise(seed), Fraction(1, 2))


FAULTS: dict[str, tuple[str, Callable[[Patch], None], Callable[[int], NoiseSource]]] = {
    "half of the variance is drawn": ("windows", nothing, weak),
    "replacement is charged as coming": ("windows", half_the_window, SeededNoise),
    "everybody is counted twice": ("totals", double_count, SeededNoise),
    "a table of costs has half of the cost": ("totals", half_the_charges, SeededNoise),
    "the gate has a tenth of its noise": ("windows", loud_gate, SeededNoise),
    "selections have no noise": ("selections", nothing, EagerSelections),
    "a stratum pays for one release": ("strata", one_release_of_a_stratum, SeededNoise),
    "earlier months are not charged": ("tables", last_month_alone, SeededNoise),
    "noise is never negative": ("windows", nothing, OneSidedNoise),
    "a month has no noise": ("windows", nothing, LateNoise),
}
RUNS = {"windows": 120, "totals": 120, "tables": 60, "strata": 250, "selections": 120}


SLOW = {"tables", "selections", "strata"}


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=[pytest.mark.slow] * (FAULTS[f][0] in SLOW)) for f in FAULTS]
)
def test_a_planted_fault_is_found(fault: str, monkeypatch: Patch) -> None:
    name, plant, source = FAULTS[fault]
    sound_audit(name)
    plant(monkeypatch)
    result = audited(name, RUNS[name], source(1))
    assert result.violation, result.text()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in STUDIES]
)
def test_a_sound_study_is_not_blamed(name: str) -> None:
    result = audited(name, RUNS[name], SeededNoise(2))
    assert not result.violation
    assert result.pair_rho <= result.rho * (1 + 1e-9)
