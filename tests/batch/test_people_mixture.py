"""A mixture of people: what it learns, how its noise is shrunk, and how people are drawn."""

from fractions import Fraction

import numpy as np
import pytest
from people_tables import paired

from stream_dp.batch.people import mixture_model
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_draw import drawn_cells
from stream_dp.batch.people.residual_counts import all_residuals, marginal_counts
from stream_dp.batch.people.target_shares import CLEAR, Targets, on_simplex, shrunk
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers

RNG = np.random.default_rng(7)


def centre(table):
    return table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()


def tables():
    n = 20
    few = np.outer(RNG.normal(size=n), RNG.normal(size=n)) * 3
    return {
        "nothing": np.zeros((n, n)),
        "few directions": centre(few),
        "few cells": centre(np.eye(n)[RNG.permutation(n)] * 12),
        "all alike": centre(RNG.normal(size=(n, n))),
    }


@pytest.mark.parametrize(("name", "true"), tables().items())
def test_the_estimated_risk_is_the_error_and_no_more_than_half_of_what_noise_leaves(name, true):
    """Over many draws: the mean of the estimated risk is the mean squared error."""
    errors, risks, variance = [], [], 1.0
    for _ in range(60):
        noisy = true + centre(RNG.normal(0, variance**0.5, true.shape))
        estimate = shrunk(noisy, variance)
        errors.append(np.square(estimate.values - true).sum())
        risks.append(estimate.risk)
        assert np.abs(estimate.values.sum(0)).max() < 40 * variance**0.5
    free = (true.shape[0] - 1) * (true.shape[1] - 1)
    assert np.mean(errors) < {"nothing": 0.1, "all alike": 0.6}.get(name, 0.5) * free
    # The least of several unbiased estimates is a little too small, by some of its own deviations.
    assert abs(np.mean(errors) - np.mean(risks)) < 1.5 * (2 * free) ** 0.5


def test_the_nearest_shares():
    for _ in range(20):
        noisy = RNG.normal(0.1, 0.3, 9)
        shares = on_simplex(noisy)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
        kept = shares > 0
        moved = (noisy - shares)[kept]
        assert moved == pytest.approx(np.full(kept.sum(), moved[0]))
        assert (noisy[~kept] <= moved[0] + 1e-12).all()


def test_people_of_a_cell_are_as_many_as_expected():
    rows = RNG.dirichlet(np.full(40, 0.3), 7)
    people = np.array([100, 101, 0, 3, 250, 99, 100])
    cells = drawn_cells(np.random.default_rng(1), rows, people)
    assert [len(c) for c in cells] == people.tolist()
    expected = people @ rows
    drawn = np.bincount(np.concatenate(cells), minlength=40)
    assert np.abs(drawn - expected).max() < 2.5
    # Simple draws would miss by far more.
    assert np.square(drawn - expected).sum() < 0.2 * (
        people.sum() - np.square(expected).sum() / people.sum()
    )


@pytest.mark.parametrize("rho", ["1/4", "4"])
def test_it_learns_what_depends_and_what_does_not(rho):
    pytest.importorskip("jax")
    from stream_dp.batch.people.people_synthesizer import fit_people
    from stream_dp.batch.synthesizer import FitContext
    from stream_dp.privacy.noise import SeededNoise
    from stream_dp.study import PeopleRelease

    people = paired(6000, 8, 2)
    release = PeopleRelease(
        name="p", kind="mixture", attributes=("a", "b"), rho=Fraction(rho), every=1
    )
    fit = fit_people(people, release, FitContext(SeededNoise(3)))
    synthetic = fit.sample(1)
    assert abs(synthetic.N - people.N) < 200
    assert fit.model.layout.blocks == ((0, 1), (2, 3))
    assert fit.notes["error_on_measurements"] < 1.5

    def apart(columns):
        true = marginal_counts(people, columns) / people.N
        return np.abs(marginal_counts(synthetic, columns) / synthetic.N - true).sum() / 2

    # Random draws of 6,000 in 64 nearly equal cells differ by .04 at best.
    assert max(apart((c,)) for c in range(4)) < 0.02
    assert max(apart((0, 1)), apart((2, 3))) < 0.05
    assert max(apart((a, b)) for a in (0, 1) for b in (2, 3)) < 0.07


def targets_of(ways, rho):
    """Noisy answers to all sets of up to so many columns of a small table."""
    people = paired(6000, 8, 2)
    residuals = all_residuals(people.domain, ways, 20_000)
    every = tuple(range(residuals.candidates))
    phase = Everything(Fraction(rho), every, (Fraction(1),) * len(every), PairFilter(residuals))
    variances = phase.variances(residuals)
    true = residuals.counter(people)(every)
    sizes = np.diff(residuals.starts)
    deviations = np.repeat([float(variances[i]) ** 0.5 for i in every], sizes)
    noise = np.random.default_rng(5).normal(0, deviations)
    values = true + np.rint(noise).astype(np.int64)
    answers = NoisyAnswers.none().joined(residuals, every, values, variances)
    return Targets.of(residuals, answers)


def test_clear_pairs_are_not_shrunk_where_pairs_are_all_that_is_measured():
    pairs, triples = targets_of(2, "1/100"), targets_of(3, "1/100")
    assert pairs.of_pairs
    assert not triples.of_pairs
    assert min(pairs.signals[(0, 1)], pairs.signals[(2, 3)]) > CLEAR
    for seen, kept in ((pairs, True), (triples, False)):
        for columns, estimate in seen.dependence.items():
            first, second = (seen.interactions[(c,)].values for c in columns)
            measured = seen.interactions[columns].values - np.outer(first, second)
            same = np.array_equal(estimate.values, measured)
            assert same == (kept and seen.signals[columns] > CLEAR), columns


def test_blocks_have_more_cells_where_pairs_are_all_that_is_measured(monkeypatch):
    monkeypatch.setattr(mixture_model, "MOST_CELLS", 63)
    assert mixture_model.column_blocks(targets_of(2, "4")) == ((0, 1), (2, 3))
    assert mixture_model.column_blocks(targets_of(3, "4")) == ((0,), (1,), (2,), (3,))


def test_a_model_that_is_far_says_so(monkeypatch):
    """Four product rows cannot hold two strong pairs: their misfit is far above noise."""
    pytest.importorskip("jax")
    from stream_dp.batch.people import mixture_model

    monkeypatch.setattr(mixture_model, "column_blocks", lambda seen: ((0,), (1,), (2,), (3,)))
    monkeypatch.setattr(mixture_model, "_MOST", 4)
    seen = targets_of(2, "1/4")
    fit, error = mixture_model.BlockMixture(seen.residuals, 1).fitted_to(seen)
    assert fit.layout.blocks == ((0,), (1,), (2,), (3,))
    assert error > 3
