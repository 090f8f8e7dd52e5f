"""A closed cohort costs what it is charged, for every sequence of reports that a person can send.

The reports go through the population, which refuses whoever comes late, and through the mechanism's
own `measure`. A difference d in an answer with noise variance v costs d^2 / (2 v), in fractions.
"""

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from kit.histories import joint, study_of, totals, window

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanisms import mechanism
from stream_dp.continual.window.window import FixedWindow
from stream_dp.population.cells import Cells
from stream_dp.population.population import Population

SHARE = {"size_share": "1/5"}
SILENT = -1
CASES = {
    "windows": ([window(2)], {"count": 5}),
    "windows of three": ([window(3)], {"count": 5}),
    "windows of one": ([window(1)], {"count": 4}),
    "histograms": ([window(2, strategy="histogram")], {"count": 4}),
    "three symbols": ([window(2)], {"count": 4, "values": (0, 1, 2)}),
    "absences": ([window(2)], {"count": 4, "missing": "absent"}),
    "carried answers": ([window(3)], {"count": 4, "missing": {"carry": True, "first": 1}}),
    "a later beginning": ([window(2, first="2")], {"count": 5}),
    "totals": ([totals(**SHARE)], {"count": 5}),
    "totals of the filled-in value": ([totals(**SHARE)], {"count": 4, "missing": 1}),
    "totals that begin later": ([totals(first="3", **SHARE)], {"count": 5}),
    "a joint panel's windows and totals": ([joint(2)], {"count": 5}),
    "several": ([window(3), totals(**SHARE), window(1)], {"count": 4}),
}


def counted(study, said):
    """By period, the counts of one person by release. said: a code by period, or SILENT."""
    population, counts = Population(study), []
    for number, code in enumerate(said, 1):
        if code != SILENT:
            one = np.ones(1, np.uint16)
            population.fold(
                Cells(
                    hi=one.astype(np.uint64),
                    lo=one.astype(np.uint64),
                    period=one * np.uint16(number),
                    attribute=one * np.uint16(0),
                    code=np.array([code], np.uint8),
                    partition=one * np.uint16(0),
                    offset=np.array([number]),
                ),
                [],
            )
        counts.append(population.close().counts)
    return counts


def parts(study, declared):
    """The mechanisms of a release with the places of their counts."""
    chosen = mechanism(study, declared)
    if isinstance(chosen, FixedWindow | Cumulative):
        return [(chosen, slice(None))]
    bins = chosen.window.measurement.counts_size
    return [(chosen.window, slice(bins)), (chosen.totals, slice(bins, None))]


def measured(chosen, counts):
    """All measurements of the noise's rows, period by period."""
    if isinstance(chosen, FixedWindow):
        return [chosen.measure(t, own) for t, own in enumerate(counts, 1)]
    streams = np.zeros(chosen.all_entries, np.int64)
    for t, own in enumerate(counts, 1):
        streams[chosen.entry_positions(t)] = np.append(own[:t], own[-1])
    return [chosen.measure(streams, t) for t in range(1, chosen.horizon + 1)]


def worst_costs(chosen, histories):
    """The worst cost of periods 1..t over all histories, against nobody: t = 1..T."""
    weights = [
        [1 / (2 * v) for v, size in chosen.demand(t) for _ in range(size)]
        for t in range(1, chosen.horizon + 1)
    ]
    worst = [Fraction(0)] * chosen.horizon
    for counts in histories:
        total = Fraction(0)
        for t, rows in enumerate(measured(chosen, counts)):
            assert len(rows) == len(weights[t])
            for i in np.flatnonzero(rows):
                total += int(rows[i]) ** 2 * weights[t][i]
            worst[t] = max(worst[t], total)
    return worst


@pytest.mark.parametrize("name", CASES)
def test_charges_are_the_exact_worst_case_over_all_reports(name):
    releases, how = CASES[name]
    study = study_of(releases, closed=True, **how)
    assert study.size is None
    codes = range(len(study.attributes["x"].listed))
    sequences = list(product([SILENT, *codes], repeat=study.periods.count))
    people = [counted(study, said) for said in sequences]
    for declared in study.releases:
        first, last = study.span(declared)
        for chosen, own in parts(study, declared):
            histories = [[by[declared.name][own] for by in p[first - 1 : last]] for p in people]
            assert worst_costs(chosen, histories) == list(accumulate(chosen.charges))
            assert sum(chosen.charges) == chosen.rho
    for said, counts in zip(sequences, people, strict=True):
        if all(code == SILENT for code in said[: study.last_entry]):
            assert not any(own.any() for by in counts for own in by.values())


def test_patterns_have_less_noise_than_where_people_enter_late():
    """Over the paper at T = 12 and k = 3: the mean pattern, all but one, at least 1 of 3."""
    weights = np.append(0, np.ones(7))

    def errors(study):
        chosen = mechanism(study, study.releases[0])
        paper = chosen.releases / (2 * chosen.rho)
        variances = [chosen.bin_variances(t) for t in range(3, 13)]
        once = [chosen.functional(t, weights)[1] / 7 for t in range(3, 13)]
        seven = np.mean([v[1:] for v in variances])
        return [float((x / paper) ** 0.5) for x in (np.mean(variances), seven, np.mean(once))]

    closed = errors(study_of([window(3)], closed=True, count=12))
    assert closed == pytest.approx([0.7156, 0.7156, 0.4467], abs=5e-5)
    late = errors(study_of([window(3)], relation="add_remove", count=12))
    assert late == pytest.approx([0.8139, 0.7838, 0.5519], abs=5e-5)
