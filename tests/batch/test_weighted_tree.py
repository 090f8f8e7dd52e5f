"""Rows weighted to all noisy pairs: the least of what is stated, and roundings that balance."""

from fractions import Fraction

import numpy as np
import pytest
from people_tables import domain, paired

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.weighted_tree import (
    Apart,
    Wanted,
    WeightedTree,
    balanced_rows,
    row_weights,
)
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease

RNG = np.random.default_rng(4)
CODES = np.stack([RNG.integers(n, size=900) for n in (4, 3, 2)], axis=1)


def wanted(columns, target, slack):
    shape = np.shape(target)
    cells = np.ravel_multi_index(tuple(CODES[:, c] for c in columns), shape).astype(np.int32)
    return Wanted(cells, np.ravel(target), np.full(np.size(target), slack))


def marginals(slack):
    return [
        wanted((0,), [0.1, 0.2, 0.3, 0.4], slack),
        wanted((1, 2), [[0.3, 0.1], [0.1, 0.2], [0.05, 0.25]], slack),
    ]


def shares(weights, marginal):
    return np.bincount(marginal.cells, weights, len(marginal.target))


def test_without_slack_marginals_are_met():
    weights = row_weights(900, marginals(1e-9))
    assert weights.sum() == pytest.approx(1)
    for marginal in marginals(0.0):
        assert shares(weights, marginal) == pytest.approx(marginal.target, abs=2e-3)


def test_with_slack_weights_are_the_least_of_what_is_stated():
    own = marginals(3e-2)
    weights = row_weights(900, own)

    def stated(w):
        apart = sum(float((np.square(shares(w, m) - m.target) / (2 * m.slack)).sum()) for m in own)
        return float((w * np.log(w * len(w))).sum()) + apart

    least = stated(weights)
    for _ in range(50):
        other = weights * np.exp(RNG.normal(0, 0.05, len(weights)))
        assert stated(other / other.sum()) > least


def test_roundings_keep_marginals_and_expectations():
    """Each row stands there its expected number of times, up to one; marginals up to a person."""
    own, people = marginals(1e-9), 400
    weights = row_weights(900, own)
    rows = balanced_rows(np.random.default_rng(1), weights, people, CODES, own)
    assert len(rows) == people
    times = np.bincount(rows, minlength=900)
    assert np.abs(times - weights * people).max() < 1
    for marginal in own:
        counts = np.bincount(marginal.cells[rows], minlength=len(marginal.target))
        assert np.abs(counts - shares(weights, marginal) * people).max() < 1.5


def test_roundings_are_hardly_biased():
    own, people = marginals(1e-9), 400
    weights = row_weights(900, own)
    times = np.zeros(900)
    for seed in range(200):
        rows = balanced_rows(np.random.default_rng(seed), weights, people, CODES, own)
        times += np.bincount(rows, minlength=900)
    apart = (times / 200 - weights * people) / np.sqrt(weights * people / 200 + 1e-3)
    assert np.abs(apart).mean() < 1.2


def test_no_row_is_lost_where_weights_are_whole():
    weights, people = np.full(900, 1 / 900), 1800
    rows = balanced_rows(np.random.default_rng(1), weights, people, CODES, marginals(1e-9))
    assert (np.bincount(rows) == 2).all()


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_likeliest_power_is_found(power):
    """Dependence drawn alike in every cell, or in proportion to the cell's share."""
    rng = np.random.default_rng(2)
    skewed = 1 / np.arange(1, 31) ** 1.5
    p = np.outer(skewed, skewed) / skewed.sum() ** 2
    scale = np.power(p, 1 + power)
    values = rng.normal(0, np.sqrt(scale)) + rng.normal(0, 1e-6, p.shape)
    apart = Apart(values, p, 1e-12, 29 * 29)
    weight = apart.entropy(apart.energy)
    expected = scale.sum() / np.power(p, power) / apart.energy
    assert weight == pytest.approx(expected)


def release(columns, rho):
    names = tuple(f"c{i}" for i in range(columns))
    return MatchRelease(name="p", kind="table", attributes=names, rho=Fraction(rho), every=1)


def fitted(people, rho, seed=1):
    fit = load_synthesizer("table")
    columns = len(people.domain.columns)
    return fit(people, release(columns, rho), FitContext(SeededNoise(seed)))


def variation(first, second, columns, sizes):
    cells = [
        np.bincount(
            np.ravel_multi_index(tuple(t.codes[:, c].astype(int) for c in columns), sizes),
            minlength=int(np.prod(sizes)),
        )
        / t.N
        for t in (first, second)
    ]
    return float(np.abs(cells[0] - cells[1]).sum() / 2)


def test_pairs_that_depend_join_the_tree_and_others_do_not():
    people = paired()
    fit = fitted(people, "1/400")
    assert isinstance(fit.second.model, WeightedTree)
    held = {a for a in fit.second.model.fitted.held if len(a) == 2}
    assert held == {(0, 1), (2, 3)}
    sample = fit.sample(3)
    assert variation(people, sample, (0, 1), (8, 8)) < 0.06
    assert variation(people, sample, (0, 2), (8, 8)) < 0.08
    assert variation(people, sample, (0,), (8,)) < 0.02


def test_pairs_without_room_in_the_tree_are_reached_by_weights(monkeypatch):
    """A cycle of three columns with room for two pairs alone."""
    from stream_dp.batch.people import weighted_tree

    rng, n = np.random.default_rng(1), 8000
    hidden = rng.normal(0, 1, n)
    codes = np.stack(
        [np.digitize(hidden + rng.normal(0, 0.7, n), np.linspace(-1.5, 1.5, 6)) for _ in range(3)],
        axis=1,
    )
    people = People(domain(7, 7, 7), codes)
    monkeypatch.setattr(weighted_tree, "MOST_CELLS", 100)
    monkeypatch.setattr(weighted_tree, "BAD", 1e9)  # no hidden classes, which would reach them too
    fit = fitted(people, "1/5")
    (outside,) = {(0, 1), (0, 2), (1, 2)} - fit.second.model.fitted.held
    weighted = variation(people, fit.sample(1), outside, (7, 7))
    monkeypatch.setattr(weighted_tree, "row_weights", lambda rows, m: np.full(rows, 1 / rows))
    assert weighted < 0.6 * variation(people, fit.sample(1), outside, (7, 7))


def test_a_budget_that_shows_nothing_picks_pairs_instead():
    fit = fitted(paired(300), "1/2000")
    assert "picked in rounds" in fit.title
