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

from stream_dp.privacy.ledger import Charge, Ledger

from .study import Study

GATE = "[study.gate]"  # the name of its charges, which no release can have


@dataclass(frozen=True)
class PeriodGate:
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


def period_gate(study: Study) -> PeriodGate | None:
    """The gate of a study's periods, or None for a study without a gate.

    The smallest count is a declared part of the expected people, rounded up. Each period gets the
    same part of the gate's rho.
    """
    gate = study.gate
    if gate is None:
        return None
    expected = gate.expected or study.size
    assert expected is not None  # a study without both contradicts itself
    return PeriodGate(expected, math.ceil(gate.least * expected), gate.rho / study.periods.count)


def gate_charges(study: Study, ledger: Ledger, number: int) -> tuple[Charge, ...]:
    """The charges of the gate up to period `number` that a ledger does not have."""
    gate = period_gate(study)
    if gate is None:
        return ()
    charged = int(ledger.costs.get(GATE, Fraction(0)) / gate.rho)
    return tuple(Charge(GATE, n, gate.rho) for n in range(charged + 1, number + 1))
