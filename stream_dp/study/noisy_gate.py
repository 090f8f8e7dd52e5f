"""The paid gate of unattended studies: a noisy count that decides whether a period closes.

At the cut of a period the gate counts the people with an answer for the period who had a place
before it; of the first period, everybody with an answer and a place. A noisy count below the
threshold holds the period for the operator. A file with misspelt ids or periods brings answers of
nobody who is known, so the gate holds its period.

Cost. The count of a period changes by at most 1 between neighbouring inputs, under every relation:
one place has another history, and every other place the same. A person can be counted in each of T
periods, and a neighbour in none, so the exact squared sensitivity of all T counts is T. Each count
has independent discrete Gaussian noise of variance s2, and the gate costs T / (2 s2). A prefix of n
periods costs n / (2 s2). The decision is a function of the noisy count and costs nothing more.
`tests/statistical/test_gate_costs.py` finds the maximum by brute force.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stream_dp.privacy.ledger import Charge, Ledger

from .study import Study

GATE = "[study.gate]"  # the name of its charges, which no release can have


@dataclass(frozen=True)
class NoisyGate:
    """The gate of every period.

    expected: the count of a full period.
    least: the smallest noisy count that closes a period.
    rho: the cost of a period.
    """

    expected: int
    least: int
    rho: Fraction

    @property
    def variance(self) -> Fraction:
        """The variance of the noise: rho = 1 / (2 variance)."""
        return 1 / (2 * self.rho)

    @property
    def demand(self) -> tuple[tuple[Fraction, int]]:
        """The noise of a period, for `NoiseSource.draw`."""
        return ((self.variance, 1),)

    def holds(self, people: int) -> bool:
        """Whether a period with this noisy count is held."""
        return people < self.least


def noisy_gate(study: Study) -> NoisyGate | None:
    """The gate of a study's periods, or None for a study without a gate.

    The smallest count is a declared part of the expected people, rounded up. Each period gets the
    same part of the gate's rho.
    """
    gate = study.gate
    if gate is None:
        return None
    expected = gate.expected or study.size
    assert expected is not None  # a study without both contradicts itself
    return NoisyGate(expected, math.ceil(gate.least * expected), gate.rho / study.periods.count)


def gate_charges(study: Study, ledger: Ledger, number: int) -> tuple[Charge, ...]:
    """The charges of the gate up to period `number` that a ledger does not have."""
    gate = noisy_gate(study)
    if gate is None:
        return ()
    charged = int(ledger.costs.get(GATE, Fraction(0)) / gate.rho)
    return tuple(Charge(GATE, n, gate.rho) for n in range(charged + 1, number + 1))


_WIDE = 10_000  # standard deviations from which a sum is an integral
_REACH = 12  # standard deviations that a sum covers beyond its first term
_LEAST_STATED = 1e-12  # a smaller probability is stated as below this one
_MOST_ALARMS = 0.01  # of a full period, above which `check` warns


def tail(variance: Fraction, least: int) -> float:
    """The probability that discrete Gaussian noise is at least `least`.

    >>> f"{tail(Fraction(100), 0):.6f} {tail(Fraction(100), 30):.6f}"
    '0.519947 0.001583'
    """
    if least <= 0:
        return 1 - tail(variance, 1 - least)
    deviation = math.sqrt(variance)
    if deviation > _WIDE:
        return math.erfc((least - 0.5) / (deviation * math.sqrt(2))) / 2
    reach = math.ceil(_REACH * deviation) + 1
    total = 1 + 2 * _weight(np.arange(1, reach), variance)
    return _weight(np.arange(least, least + reach), variance) / total


def _weight(values: np.ndarray[tuple[int], np.dtype[np.int64]], variance: Fraction) -> float:
    return math.fsum(np.exp(-(values.astype(float) ** 2) / (2 * float(variance))).tolist())


def gate_facts(study: Study) -> dict[str, str | int | float]:
    """The gate's facts by name; `false_alarm` and `missed` are probabilities of one period.

    false_alarm: that a period with the expected count is held.
    missed: that a period in which nobody answers who is known is closed.
    """
    gate = noisy_gate(study)
    assert gate is not None
    return {
        "expected": gate.expected,
        "least": gate.least,
        "noise_variance": str(gate.variance),
        "noise_standard_deviation": math.sqrt(gate.variance),
        "rho": str(gate.rho * study.periods.count),
        "rho_of_each": str(gate.rho),
        "false_alarm": tail(gate.variance, gate.expected - gate.least + 1),
        "missed": tail(gate.variance, gate.least),
    }


def gate_words(study: Study) -> list[str]:
    """The gate in lines; none for a study without a gate."""
    gate = noisy_gate(study)
    if gate is None:
        return []
    facts, unit, total = gate_facts(study), study.unit, gate.rho * study.periods.count
    return [
        "",
        f"gate: a period is held for the operator if fewer than {gate.least:,} {unit}s of earlier"
        " periods answer, by a noisy count",
        f"  noise standard deviation: {facts['noise_standard_deviation']:.1f}; rho of each period:"
        f" {gate.rho} = {float(gate.rho):.6g}, together {float(total):.6g}",
        f"  a period with {gate.expected:,} of them is held with probability"
        f" {_stated(facts['false_alarm'])}; a period with none is closed with probability"
        f" {_stated(facts['missed'])}",
    ]


def _stated(probability: float | int | str) -> str:
    """A probability in two digits; no event of the gate is impossible."""
    value = float(probability)
    return f"{value:.2g}" if value >= _LEAST_STATED else f"below {_LEAST_STATED:g}"


def gate_warnings(study: Study) -> list[str]:
    """A line if the gate errs often."""
    if study.gate is None:
        return []
    facts = gate_facts(study)
    worst = max(float(facts["false_alarm"]), float(facts["missed"]))
    if worst <= _MOST_ALARMS:
        return []
    return [
        f"study.gate: it errs with probability {worst:.2g} a period, over {_MOST_ALARMS:g}: raise"
        " its rho, or move least away from 0 and 1"
    ]
