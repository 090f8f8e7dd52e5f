"""The gate in a plan: its threshold, its noise and cost, and how often it errs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from stream_dp.study import Study
from stream_dp.study.period_gate import period_gate

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
    gate = period_gate(study)
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
    gate = period_gate(study)
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
