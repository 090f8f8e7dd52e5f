"""Coarse sums of a histogram: their terms by definition, and rare states in a panel."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from kit.markov_panels import markov_panel

from stream_dp.continual.window import coarse_sums as module
from stream_dp.continual.window.coarse_sums import RARE_WEIGHT, RUN_WEIGHT, WEIGHT, CoarseSums
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise


def sets_of(q: int, width: int, rare: tuple[int, ...], usual: tuple[int, ...]):
    """Every set of patterns with its weight, from the words of the definition."""
    patterns = list(product(range(q), repeat=width))
    for v, j in product(range(q), range(1, width + 1)):
        at_least = np.array([p.count(v) >= j for p in patterns])
        last = np.array([all(s == v for s in p[-j:]) for p in patterns])
        for members in (at_least, ~at_least, ~last):
            yield members, WEIGHT
        yield last, RUN_WEIGHT if j == width - 1 > 1 and v not in usual else WEIGHT
    for v, j in product(rare, range(1, width + 1)):
        yield np.array([v in p[-j:] for p in patterns]), RARE_WEIGHT


@pytest.mark.parametrize(
    ("q", "width", "rare", "usual"),
    [(3, 1, (), ()), (3, 3, (2,), (1,)), (4, 2, (0, 3), (1,)), (5, 3, (1, 4), ())],
)
def test_terms_are_those_of_every_set(q, width, rare, usual):
    terms, off = (
        CoarseSums(q, width, rare, RUN_WEIGHT, usual),
        np.random.default_rng(1).normal(size=q**width),
    )
    dense = np.zeros((q**width, q**width))
    for members, weight in sets_of(q, width, rare, usual):
        dense += weight * np.outer(members, members) / members.sum()
    assert np.allclose(terms.slope(off), dense @ off)
    largest = np.linalg.eigvalsh(dense)[-1]
    assert largest * (1 - 1e-9) <= terms.most <= 1.01 * largest


def test_symbols_of_few_people_are_rare():
    deviation, people = 10.0, np.full(27, 100.0)
    rare = [code for code, p in enumerate(product(range(3), repeat=3)) if 2 in p]
    people[rare] = 1.0
    terms = CoarseSums(3, 3)
    assert terms.rare_symbols(people, deviation) == (2,)
    people[rare] = 5.0
    assert terms.rare_symbols(people, deviation) == ()


def test_a_rare_state_is_hardly_more_frequent_in_the_panel(monkeypatch):
    """At least 1 of 3 periods in a state of 1 %: without coarse sums the bias is 60 % larger."""
    truth = markov_panel(5, n=10_000, periods=8, symbols=5, stay=0.9)
    moved = np.random.default_rng(1).random(len(truth)) < 0.95
    truth[moved] = np.where(truth[moved] == 4, 0, truth[moved])
    form = FixedWindow(
        values=(0, 1, 2, 3, 4),
        width=3,
        horizon=8,
        rho=Fraction(1, 200),
        neighbours="replace_one",
        rows=len(truth),
    ).best()
    seen = np.array([4 in pattern for pattern in product(range(5), repeat=3)])

    def bias() -> float:
        errors = []
        for seed in range(4):
            state, source = form.init(), SeededNoise(seed)
            for t in range(1, 9):
                counts = form.counts(truth, t)
                state, step = form.step(state, counts, source.draw(form.demand(t)))
                if step is not None:
                    errors.append(float((state.panel - counts)[seen].sum()))
        return float(np.mean(errors))

    with_sums = bias()
    monkeypatch.setattr("stream_dp.continual.window.panel_fit.LEAST_SYMBOLS", 9)
    without = bias()
    assert module.LEAST_SYMBOLS == 3
    assert 0 < 1.6 * with_sums < without


def test_a_state_that_nobody_leaves_loses_fewer_rows_by_noise(monkeypatch):
    """Rows leave by noise and do not come back; the runs' weight lowers that bias by a tenth."""
    rng = np.random.default_rng(2)
    columns = [rng.choice(3, 26_000, p=[0.5, 0.45, 0.05])]
    for _ in range(6):
        drawn = rng.choice(3, 26_000, p=[0.5, 0.47, 0.03])
        columns.append(np.where(columns[-1] == 2, 2, drawn))
    truth = np.stack(columns, axis=1).astype(np.uint8)
    form = FixedWindow(
        values=(0, 1, 2),
        width=3,
        horizon=7,
        rho=Fraction(1, 200),
        neighbours="replace_one",
        rows=len(truth),
    ).best()

    def bias() -> float:
        errors = []
        for seed in range(12):
            state, source = form.init(), SeededNoise(seed)
            for t in range(1, 8):
                counts = form.counts(truth, t)
                state, _ = form.step(state, counts, source.draw(form.demand(t)))
                if t > 4:
                    errors.append(float(state.panel[-1] - counts[-1]))
        return float(np.mean(errors))

    weighted = bias()
    monkeypatch.setattr(module, "RUN_WEIGHT", WEIGHT)
    without = bias()
    assert without < 1.1 * weighted < 0
