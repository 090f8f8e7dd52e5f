"""The gate of a period: its exact cost by brute force, its noise, and how often it errs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
from kit.studies import small_study
from statistical.spread import SCALES, DrawnAhead, Scaled, spread_is, unbiased

from stream_dp.log.log import Stored
from stream_dp.log.message import START, build_message
from stream_dp.planning.plan import plan_study
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.privacy.ledger import Ledger
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.certificate import CertifiedLedger
from stream_dp.services.releaser.decision import ChainEnd, decide_gate
from stream_dp.services.storage.journal import Entry
from stream_dp.services.storage.journal_heads import PeriodInput
from stream_dp.study import Study
from stream_dp.study.noisy_gate import (
    GATE,
    gate_charges,
    gate_facts,
    gate_words,
    noisy_gate,
    tail,
)

T = 3
LABELS = ["2021-01", "2021-02", "2021-03"]
GATED = {"rho": Fraction(1, 10), "least": Fraction(1, 2)}
HISTORIES = [*product([None, 1], repeat=T)]  # an answer of each period, or none
OTHERS = [
    {},
    {"a": (1, 1, 1)},
    {"a": (0, None, 1), "b": (None, 1, None)},
    {"a": (1, None, None), "b": (None, 0, 1), "c": (None, 1, 1)},
]


class Setting(NamedTuple):
    neighbours: str
    size: int | None
    closed: bool = False


SETTINGS = [
    Setting("add_remove", None),
    Setting("add_remove", None, closed=True),
    *(Setting("replace_one", size) for size in (1, 2, 3, 9)),
]


def gated(setting: Setting, **changes: object) -> Study:
    gate = {**{key: str(value) for key, value in GATED.items()}, "expected": 1}
    return small_study(
        **{"neighbours": setting.neighbours, "size": setting.size, "closed": setting.closed},
        **{"rho": 2, "gate": gate, **changes},
    )


def gate_counts(
    study: Study, decoder: Decoder, people: dict[str, Sequence[int | None]]
) -> tuple[int, ...]:
    """The true count of the gate of each period."""
    population, counts, offset = Population(study), [], 0
    for number, label in enumerate(LABELS):
        records = []
        for person, answers in people.items():
            if answers[number] is not None:
                values = {"poverty": answers[number]}
                data = {"person": person, "period": label, "values": values}
                records.append(Stored(0, offset, 0, None, json.dumps(data).encode(), ()))
                offset += 1
        population.fold(*decoder.decode(records, population.period))
        counts.append(population.returning())
        population.close()
    return tuple(counts)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_cost_is_the_exact_maximum_over_neighbours(setting: Setting) -> None:
    """Somebody with any history, or nobody, and somebody else with any other."""
    study = gated(setting)
    decoder, worst = Decoder(study, b"k" * 32), [0] * T
    for others in OTHERS:
        alone = gate_counts(study, decoder, others)
        # Ids on both sides of the others' in the order of hashes, by which places are given.
        counts = {
            gate_counts(study, decoder, {**others, person: history})
            for person in ("x", "y", "z")
            for history in HISTORIES
        }
        pairs: Iterator[tuple[tuple[int, ...], tuple[int, ...]]]
        if setting.neighbours == "add_remove":
            pairs = ((alone, with_x) for with_x in counts)
        else:
            pairs = combinations(counts | {alone}, 2)
        for a, b in pairs:
            changes = [(x - y) ** 2 for x, y in zip(a, b, strict=True)]
            assert max(changes) <= 1
            worst = [max(w, sum(changes[: n + 1])) for n, w in enumerate(worst)]
    assert worst == [1, 2, 3]
    gate = noisy_gate(study)
    assert gate is not None
    ledger = Ledger(study.rho)
    for number, squared in enumerate(worst, 1):
        ledger = ledger.charge(*gate_charges(study, ledger, number))
        assert ledger.costs[GATE] == Fraction(squared) / (2 * gate.variance)
    assert ledger.costs[GATE] == GATED["rho"]


def test_the_divergence_of_neighbouring_counts_is_what_is_charged() -> None:
    gate = noisy_gate(gated(SETTINGS[0]))
    assert gate is not None
    values = np.arange(-400, 401)
    log_weights = -(values**2) / (2 * float(gate.variance))
    log_p = log_weights - math.log(math.fsum(np.exp(log_weights)))
    for alpha in (2, 3, 10):
        here, there = log_p[1:], log_p[:-1]
        divergence = math.log(math.fsum(np.exp(alpha * here + (1 - alpha) * there))) / (alpha - 1)
        assert divergence == pytest.approx(alpha * float(gate.rho), rel=1e-9)


def test_the_gate_is_in_the_total_and_in_every_charge() -> None:
    study = gated(SETTINGS[0])
    plan, ledger = plan_study(study), Ledger(study.rho, study.strata)
    assert plan.total == 1 + GATED["rho"]
    for number in range(1, T + 1):
        ledger = ledger.charge(*gate_charges(study, ledger, number), *plan.charges(number))
        assert ledger.costs[GATE] == GATED["rho"] * Fraction(number, T)
    assert ledger.spent == plan.total
    assert gate_charges(study, ledger, T) == ()


@pytest.mark.parametrize("scale", SCALES)
def test_a_noisy_count_errs_as_stated(scale: Fraction) -> None:
    """It fails for noise of a scale that is 5 % off in either direction."""
    study, runs = gated(SETTINGS[0]), 15_000
    gate = noisy_gate(study)
    assert gate is not None
    source = DrawnAhead(Scaled(SeededNoise(3), scale), runs)
    start = ChainEnd(Entry(build_message(0, START, {}, [])), 0, START, CertifiedLedger.of(study))
    counted, noisy = PeriodInput({}, {}, {}), []
    for _ in range(runs):
        draw = source.draw(gate.demand)
        end = decide_gate(study, start, 1, people=30, draw=draw, counted=counted)
        noisy.append(end.entry.gate.people)
        assert end.entry.gate.held == (noisy[-1] < gate.least)
    errors = np.array(noisy)[:, None] - 30
    assert unbiased(errors)
    assert spread_is(errors, float(gate.variance), z=4.5) == (scale == 1)


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(3), Fraction(1000)])
@pytest.mark.parametrize("least", [-40, -1, 0, 1, 2, 40])
def test_the_tail_is_the_sum_of_the_probabilities(variance: Fraction, least: int) -> None:
    weights = {k: math.exp(-k * k / (2 * float(variance))) for k in range(-700, 701)}
    expected = math.fsum(w for k, w in weights.items() if k >= least) / math.fsum(weights.values())
    assert tail(variance, least) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_the_tail_of_wide_noise_goes_on_from_that_of_narrow_noise() -> None:
    below, above = Fraction(10**8 - 1), Fraction(10**8 + 1)
    for least in (1, 10_000, 30_000):
        assert tail(below, least) == pytest.approx(tail(above, least), rel=1e-5)


def test_full_periods_are_held_as_often_as_the_plan_says() -> None:
    changes = {"gate": {"rho": "1/30", "least": "3/4", "expected": 20}}
    study, runs = gated(SETTINGS[0], **changes), 200_000
    gate, facts = noisy_gate(study), gate_facts(study)
    assert gate is not None
    assert (gate.least, gate.expected, gate.variance) == (15, 20, 45)
    noise = SeededNoise(8).draw([(gate.variance, runs)]).noise[0]
    for count, held, stated in ((20, True, facts["false_alarm"]), (0, False, facts["missed"])):
        seen = float(np.mean((noise + count < gate.least) == held))
        assert isinstance(stated, float)
        assert seen == pytest.approx(stated, abs=6 * math.sqrt(stated / runs))
    assert any("study.gate: it errs" in line for line in plan_study(study).warnings)


def test_no_event_of_the_gate_is_called_impossible() -> None:
    study = gated(SETTINGS[0], gate={"rho": "1/30", "least": "1/2", "expected": 10**6})
    facts = gate_facts(study)
    assert facts["false_alarm"] == facts["missed"] == 0
    last = gate_words(study)[-1]
    assert last == (
        "  a period with 1,000,000 of them is held with probability below 1e-12; a period with none"
        " is closed with probability below 1e-12"
    )
