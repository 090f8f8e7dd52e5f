"""A black-box audit: how much privacy do the numbers that `step` publishes certainly cost?

Nothing inside a mechanism is looked at. Two neighbouring populations go through `step`, and what
is read are the values in its measurements, of all periods: one long vector for each run. The worst
pair of histories is determined without noise, by trying every pair; then both are repeated with
simulated noise. A quarter of the runs gives the variances of the values, and so a direction, the
differences without noise over the variances. The others give scores along this direction, and a
lower bound on rho for normal scores.
"""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from stream_dp.continual.cumulative.cumulative import Cumulative, total_increments
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import Draw, SeededNoise
from stream_dp.services.audit.rho_bounds import TwoScores, gaussian_bound
from stream_dp.services.evaluate.panel_judge import pattern_histograms

RUNS = 350
ALARM = 1e-4  # the chance that an honest mechanism is blamed
TIGHT = 0.5  # the least ratio of the measured loss to the claimed one
MANY_RUNS, TIGHT_BY_MANY = 3000, 0.85  # the same, for the slow grid


def published(mechanism, counts, draws):
    """The values that all periods' steps publish together."""
    state, answers = mechanism.init(), []
    for t, draw in enumerate(draws, 1):
        state, step = mechanism.step(state, counts[t - 1], draw)
        if step is not None:
            answers.append(step.measurements.values)
    return np.concatenate(answers)


def true_counts(mechanism, symbols):
    if isinstance(mechanism, Cumulative):
        return total_increments(symbols, (1,), None)
    q, width = mechanism.q, mechanism.width
    none = [np.zeros(q**width, np.int64)] * (width - 1)
    return [*none, *pattern_histograms(symbols, q, width, width)]


def silent(mechanism):
    """Draws whose noise is 0."""
    return [
        Draw(
            tuple(np.zeros(size, np.int64) for _, size in mechanism.demand(t)),
            np.random.default_rng(0),
        )
        for t in range(1, mechanism.horizon + 1)
    ]


def repeated(mechanism, symbols, seed, runs):
    """(runs, numbers): each run with noise of its own, drawn for all runs at once."""
    source, coins = SeededNoise(seed), np.random.default_rng(seed)
    demands = [mechanism.demand(t) for t in range(1, mechanism.horizon + 1)]
    drawn = [
        [
            noise.reshape(runs, size)
            for noise, (_, size) in zip(
                source.draw([(v, size * runs) for v, size in demand]).noise, demand, strict=True
            )
        ]
        for demand in demands
    ]
    counts = true_counts(mechanism, symbols)
    return np.array(
        [
            published(
                mechanism,
                counts,
                [Draw(tuple(part[run] for part in period), coins) for period in drawn],
            )
            for run in range(runs)
        ]
    )


def worst_pair(mechanism, relation, others, symbols):
    """The two neighbouring populations that noise as measured hides least, and their difference."""
    horizon, q = mechanism.horizon, symbols
    mine = [np.array([h], np.uint8) for h in product(range(q), repeat=horizon)]
    people = [np.concatenate([others, h]) for h in mine]
    pairs = list(combinations(people, 2))
    if relation == "add_remove":
        pairs = [(others, one) for one in people]
    still = silent(mechanism)
    measured_answers = {
        id(one): published(mechanism, true_counts(mechanism, one), still)
        for one in (others, *people)
    }
    source = SeededNoise(9)
    few = [
        published(
            mechanism,
            true_counts(mechanism, others),
            [source.draw(mechanism.demand(t)) for t in range(1, horizon + 1)],
        )
        for _ in range(100)
    ]
    spread = np.var(few, axis=0)

    def shift(pair):
        return measured_answers[id(pair[1])] - measured_answers[id(pair[0])]

    worst = max(pairs, key=lambda pair: (shift(pair) ** 2 / spread).sum())
    return worst, shift(worst)


def audit(mechanism, relation=None, *, symbols=2, seed=1, runs=RUNS):
    """The lower bound on rho, but for `ALARM`, over the sum of the charges.

    relation: which neighbours to try, by default those that the mechanism claims.
    """
    relation = relation or mechanism.neighbours
    others = np.random.default_rng(3).integers(0, symbols, (6, mechanism.horizon)).astype(np.uint8)
    pair, shift = worst_pair(mechanism, relation, others, symbols)
    a, b = (repeated(mechanism, one, seed + i, runs) for i, one in enumerate(pair))
    few = runs // 4
    direction = shift / (a[:few].var(axis=0) + b[:few].var(axis=0))
    scores = TwoScores(a[few:] @ direction, b[few:] @ direction, 1)
    return gaussian_bound(scores, ALARM) / float(sum(mechanism.charges))


def window(strategy, relation, rho=None):
    """At the default rho noise has variance 1/2: the pair is far apart, the noise still smooth."""
    horizon = {"add_remove": 5, "replace_one": 4}[relation]
    rho = rho or Fraction({"add_remove": 4, "replace_one": 6}[relation])
    fields = {"strategy": strategy, "padded": False, "rows": 7}
    return FixedWindow(
        values=(0, 1), width=2, horizon=horizon, rho=rho, neighbours=relation, **fields
    )


def cumulative(relation, form="tree", rho=Fraction(5)):
    counter = None if form == "coupled" else form
    return Cumulative(horizon=4, rho=rho, neighbours=relation, rows=7, counter=counter)


AUDITED = {  # in the suite: each form, and both relations for windows and for totals
    "histogram": "add_remove",
    "residuals": "replace_one",
    "tree": "replace_one",
    "coupled": "add_remove",
}


def published_mechanism(form, relation):
    windows = form in ("histogram", "residuals")
    return window(form, relation) if windows else cumulative(relation, form)


@pytest.mark.parametrize(("form", "relation"), AUDITED.items())
def test_what_is_published_costs_what_is_charged_and_no_more(form, relation):
    assert TIGHT < audit(published_mechanism(form, relation)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("form", "relation"), [*product(AUDITED, ["add_remove", "replace_one"])])
def test_what_is_published_costs_nearly_all_that_is_charged(form, relation):
    assert TIGHT_BY_MANY < audit(published_mechanism(form, relation), runs=MANY_RUNS) <= 1


def test_a_forgotten_factor_2_is_caught(monkeypatch):
    """Sensitivity 1 where a person is replaced, as the paper has it."""
    honest = FixedWindow.demand
    monkeypatch.setattr(
        FixedWindow, "demand", lambda self, t: [(v / 2, n) for v, n in honest(self, t)]
    )
    for form in ("histogram", "residuals"):
        assert audit(window(form, "replace_one", Fraction(3)), runs=250) > 1.1


def test_noise_for_coming_and_going_does_not_cover_replacement():
    assert audit(window("histogram", "add_remove"), "replace_one", runs=300) > 1.1


@pytest.mark.slow
def test_noise_of_totals_for_coming_and_going_does_not_cover_replacement():
    assert audit(cumulative("add_remove"), "replace_one", runs=4000) > 1


@pytest.mark.parametrize(
    ("power", "wrong", "runs"), [(2, "too much", 100), (0.5, "too little", 700)]
)
def test_a_missing_square_root_is_caught(monkeypatch, power, wrong, runs):
    """The variance used as the scale, or the scale as the variance."""
    honest = FixedWindow.demand
    monkeypatch.setattr(
        FixedWindow,
        "demand",
        lambda self, t: [(Fraction(float(v) ** power), n) for v, n in honest(self, t)],
    )
    result = audit(window("histogram", "add_remove", Fraction(1, 2)), runs=runs)
    assert result < TIGHT / 2 if wrong == "too much" else result > 1


def test_another_measurement_than_the_charged_one_is_caught(monkeypatch):
    """Everybody counted twice, at the noise of once."""
    honest = FixedWindow.measure
    monkeypatch.setattr(FixedWindow, "measure", lambda self, t, counts: 2 * honest(self, t, counts))
    assert audit(window("histogram", "add_remove", Fraction(1, 2)), runs=300) > 1.5
