"""Refined rows of totals, the default: exact costs by enumeration, errors, and their table."""

import hashlib
import lzma
from fractions import Fraction
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
from kit.coupled_gains import rounded_up
from kit.refined_rows import (
    Trained,
    log_error,
    packed_table,
    refined,
    refined_constants,
    smooth_pair,
    smooth_single,
    with_costs,
)

from stream_dp.continual.cumulative.coupled_strategy import (
    PRIVATE_SINGLE,
    PUBLIC_PAIR,
    coupled_strategy,
)
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.cumulative.refined_strategy import (
    MONOMIALS,
    MOST_REFINED,
    SIZES,
    TABLE,
    refined_strategy,
)

RHO = Fraction(1, 200)
UNIT = float(2 * RHO) ** 0.5
SIZES_OF_PEOPLE = pytest.mark.parametrize("public_size", [False, True])


def totals(horizon: int, relation: str = "add_remove", **more: object) -> Cumulative:
    fields = {"rows": 50, **more}
    return Cumulative(horizon=horizon, rho=RHO, neighbours=relation, **fields)  # type: ignore[arg-type]


def squares_of_all_histories(strategy, periods):
    """Changes of all rows by every history, (2^periods, rows), and the period of each row."""
    cells = [(b, t) for b in range(1, periods + 1) for t in range(b, periods + 1)]
    place = {cell: i for i, cell in enumerate(cells)}
    answers = np.zeros((2**periods, len(cells)), np.int64)
    for i, history in enumerate(product((0, 1), repeat=periods)):
        times = dict(enumerate((t for t, x in enumerate(history, 1) if x), 1))
        for (b, t), column in place.items():
            own, before = strategy.row(b, t)
            if times.get(b, t + 1) <= t:
                answers[i, column] += own[times[b] - b]
            if b > 1 and times.get(b - 1, t) < t:
                answers[i, column] += before[times[b - 1] - (b - 1)]
    return answers, np.array([t for _, t in cells])


@SIZES_OF_PEOPLE
@pytest.mark.parametrize("periods", [2, 3, 5, 8])
def test_the_costs_of_the_table_are_those_of_all_histories(public_size, periods):
    strategy = refined_strategy(public_size=public_size, periods=periods)
    answers, times = squares_of_all_histories(strategy, periods)
    for t in range(1, periods + 1):
        seen = answers[:, times <= t]
        squares = (seen**2).sum(axis=1)
        assert strategy.single.without_entries[t - 1] == squares.max()
        pairs = squares[:, None] + squares - 2 * seen @ seen.T
        assert strategy.pair.without_entries[t - 1] == pairs.max()


@SIZES_OF_PEOPLE
@pytest.mark.parametrize(
    "periods", [2, 7, 12, 25, *(pytest.param(n, marks=pytest.mark.slow) for n in (37, 61))]
)
def test_the_table_has_the_costs_and_variances_of_its_rows(public_size, periods):
    strategy = refined_strategy(public_size=public_size, periods=periods)
    computed = with_costs(strategy)
    assert strategy.single == computed.single
    assert strategy.pair == computed.pair
    for own, stated in zip(computed.gains, strategy.gains, strict=True):
        assert np.array_equal(rounded_up(own), stated)


@SIZES_OF_PEOPLE
def test_the_costs_of_every_size_rise_with_the_periods(public_size):
    for periods in SIZES[public_size]:
        strategy = refined_strategy(public_size=public_size, periods=periods)
        assert strategy.periods == periods
        for table in (strategy.single, strategy.pair):
            assert len(table.without_entries) == periods
            assert len(table.with_entries) == periods - 1
            for costs in (table.without_entries, table.with_entries):
                assert list(costs) == sorted(set(costs))


def test_the_table_is_that_of_the_first_release():
    """Other numbers would be another mechanism for studies that have begun."""
    every = [
        [refined_strategy(public_size=public, periods=n) for n in SIZES[public]]
        for public in (False, True)
    ]
    stored = files("stream_dp.continual.cumulative").joinpath(TABLE).read_bytes()
    numbers = lzma.decompress(stored)
    assert lzma.decompress(packed_table(*every)) == numbers
    assert hashlib.sha256(numbers).hexdigest() == (
        "024b25da522dfc4e8df02155e4eac92cbf41f492b6b9eb4ffb068191f1542804"
    )


@pytest.mark.parametrize(
    ("horizon", "relation", "rms", "worst"),
    [
        (12, "add_remove", 0.5507, 0.5870),
        (24, "add_remove", 0.4915, 0.5532),
        (60, "add_remove", 0.4332, 0.5307),
        (120, "add_remove", 0.4020, 0.5200),
        (12, "replace_one", 0.6109, 0.7108),
        (24, "replace_one", 0.5549, 0.6690),
        (60, "replace_one", 0.5038, 0.6730),
    ],
)
def test_errors_in_theory(horizon, relation, rms, worst):
    """Over the root mean square error of the best separate counters, in 1 / sqrt(2 rho)."""
    separate = {
        **{
            (12, "add_remove"): 4.9121,
            (24, "add_remove"): 7.7812,
            (60, "add_remove"): 14.21,
            (120, "add_remove"): 22.254,
        },
        **{(12, "replace_one"): 5.5127, (24, "replace_one"): 8.9011, (60, "replace_one"): 16.5629},
    }[horizon, relation]
    chosen = totals(horizon, relation)
    assert chosen.rmse * UNIT / separate == pytest.approx(rms, abs=1e-4)
    largest = float(chosen.worst_variance) ** 0.5
    assert largest * UNIT / separate == pytest.approx(worst, abs=1e-4)


@SIZES_OF_PEOPLE
def test_refined_totals_are_better_than_the_closed_form(public_size):
    """In a mean over all sums; the largest variance is at most 13 % larger."""
    worst_of = PUBLIC_PAIR if public_size else PRIVATE_SINGLE
    for periods in [n for n in SIZES[public_size] if n <= 61]:
        strategy = refined_strategy(public_size=public_size, periods=periods)
        gains = np.concatenate(strategy.gains)
        cost = (strategy.pair if public_size else strategy.single).without_entries[-1]
        closed = coupled_strategy(public_size=public_size, periods=periods)
        closed_gains = np.concatenate([*closed.variances()])
        closed_cost = worst_of.without_entries[periods - 1]
        assert gains.mean() * cost < closed_gains.mean() * closed_cost, periods
        assert gains.max() * cost < 1.13 * closed_gains.max() * closed_cost, periods


def test_periods_without_rows_of_their_own_use_the_next_longer():
    assert totals(26).budget.strategy is totals(28).budget.strategy
    assert totals(24, present=True).budget.strategy is totals(25).budget.strategy
    assert totals(24).budget.strategy is not totals(25).budget.strategy


@pytest.mark.parametrize("periods", [1, 2, 4])
def test_gradients_of_the_optimiser(periods):
    generator = np.random.default_rng(1)
    blocks = [
        (
            np.tril(generator.normal(0, 0.3, (n, n))) + 0.6 * np.eye(n),
            np.tril(generator.normal(0, 0.2, (n, n))) * (n < periods),
        )
        for n in range(periods, 0, -1)
    ]
    functions = [log_error]
    if periods > 1:
        functions += [lambda b: smooth_single(b, 20.0), lambda b: smooth_pair(b, 20.0)]
    for function in functions:
        _, gradient = function(blocks)
        for (rows, below), (by_rows, by_below) in zip(blocks, gradient, strict=True):
            for matrix, slope in ((rows, by_rows), (below, by_below)):
                for cell in zip(*np.nonzero(np.tril(matrix)), strict=True):
                    kept = matrix[cell]
                    matrix[cell] = kept + 1e-6
                    above, _ = function(blocks)
                    matrix[cell] = kept - 1e-6
                    lower, _ = function(blocks)
                    matrix[cell] = kept
                    assert slope[cell] == pytest.approx((above - lower) / 2e-6, abs=1e-7)


@SIZES_OF_PEOPLE
def test_the_gradient_of_the_constants(public_size):
    trained = Trained(4, public_size=public_size)
    constants = np.random.default_rng(3).normal(0, 0.02, (2, len(MONOMIALS)))
    _, gradient = trained.objective(constants, 40.0)
    for which, number in [(0, 0), (0, 9), (1, 4), (1, 30)]:
        step = np.zeros_like(constants)
        step[which, number] = 1e-6
        above, _ = trained.objective(constants + step, 40.0)
        below, _ = trained.objective(constants - step, 40.0)
        assert gradient[which, number] == pytest.approx((above - below) / 2e-6, abs=1e-5)


def test_the_optimiser_improves_the_closed_form():
    periods = 6
    found = refined(periods, refined_constants((periods,), public_size=False), public_size=False)
    stored = refined_strategy(public_size=False, periods=periods)

    def error(strategy):
        return np.concatenate(strategy.gains).mean() * strategy.single.without_entries[-1]

    assert error(found) < 1.02 * error(stored)


def test_rows_are_refined_as_far_as_the_table_goes():
    for public_size, relation in ((False, "add_remove"), (True, "replace_one")):
        most = MOST_REFINED[public_size]
        assert totals(most, relation).budget.strategy.periods == most
        assert totals(most + 1, relation).budget.strategy.periods == most + 1
        assert totals(most, relation).rmse < totals(most + 1, relation).rmse
