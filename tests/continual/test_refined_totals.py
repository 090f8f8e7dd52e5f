"""Refined rows of totals: exact costs by enumeration, errors, and their table."""

import hashlib
import lzma
from fractions import Fraction
from importlib.resources import files
from itertools import accumulate, product

import numpy as np
import pyarrow as pa
import pytest
from kit.counter_contract import exact_costs
from kit.refined_rows import log_error, refined, smooth_pair, smooth_single, with_costs
from kit.studies import attribute, cumulative, joint, small_study

from stream_dp import run_study
from stream_dp.continual.cumulative.coupled_gains import rounded_up
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.cumulative.refined_strategy import (
    SIZES,
    TABLE,
    packed_table,
    refined_strategy,
)
from stream_dp.continual.mechanisms import mechanism
from stream_dp.continual.stored_design import NONE
from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study import Study
from stream_dp.study.panel_releases import MOST_REFINED

RHO = Fraction(1, 200)
UNIT = float(2 * RHO) ** 0.5
SIZES_OF_PEOPLE = pytest.mark.parametrize("public_size", [False, True])


def totals(horizon: int, relation: str = "add_remove", **more: object) -> Cumulative:
    fields = {"rows": 50, "refined": True, **more}
    return Cumulative(horizon=horizon, rho=RHO, neighbours=relation, **fields)  # type: ignore[arg-type]


def study_with(release: dict[str, object], periods: int = 6, **population: object) -> Study:
    return small_study(
        rho="1/200",
        periods={"first": 1, "every": "step", "count": periods},
        attributes={"x": attribute([0, 1], missing=0)},
        releases=[release],
        **population,
    )


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
    "periods", [2, 7, 12, 13, 25, *(pytest.param(n, marks=pytest.mark.slow) for n in (37, 49, 61))]
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
    for periods in SIZES:
        strategy = refined_strategy(public_size=public_size, periods=periods)
        assert strategy.periods == periods
        for table in (strategy.single, strategy.pair):
            assert len(table.without_entries) == periods
            assert len(table.with_entries) == periods - 1
            for costs in (table.without_entries, table.with_entries):
                assert list(costs) == sorted(set(costs))
        for b, (rows, _) in enumerate(strategy.blocks, 1):
            assert rows.diagonal().min() > 0, (periods, b)


def test_the_table_is_that_of_the_first_release():
    """Other numbers would be another mechanism for studies that have begun."""
    every = [
        [refined_strategy(public_size=public, periods=n) for n in SIZES] for public in (False, True)
    ]
    stored = files("stream_dp.continual.cumulative").joinpath(TABLE).read_bytes()
    numbers = lzma.decompress(stored)
    assert lzma.decompress(packed_table(*every)) == numbers
    assert hashlib.sha256(numbers).hexdigest() == (
        "f9a75f44cddfada261cccd7392d2195cdca830f79d7ff1cb8b8e321ed9f47d94"
    )


@pytest.mark.parametrize("crossed", [0, 1, 2])
@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_charges_are_the_exact_cost_of_every_prefix(relation, present, crossed):
    """Over all pairs of histories, through what the mechanism measures."""
    for horizon in (1, 2, 3) if present else (1, 2, 3, 4, 5):
        chosen = totals(horizon, relation, present=present, crossed=crossed)
        costs = exact_costs(chosen, relation)
        if crossed and relation != "add_remove":
            alone = exact_costs(chosen, "add_remove")
            costs = [max(pair, crossed * one) for pair, one in zip(costs, alone, strict=True)]
        assert costs == list(accumulate(chosen.charges))
        assert sum(chosen.charges) == RHO


@pytest.mark.parametrize(
    ("horizon", "relation", "rms", "worst"),
    [
        (12, "add_remove", 0.5489, 0.5931),
        (24, "add_remove", 0.4903, 0.5580),
        (60, "add_remove", 0.4329, 0.5328),
        (12, "replace_one", 0.6063, 0.7066),
        (24, "replace_one", 0.5520, 0.6775),
        (60, "replace_one", 0.4992, 0.6560),
    ],
)
def test_errors_in_theory(horizon, relation, rms, worst):
    """Over the root mean square error of the best separate counters, in 1 / sqrt(2 rho)."""
    separate = {
        **{(12, "add_remove"): 4.9121, (24, "add_remove"): 7.7812, (60, "add_remove"): 14.21},
        **{(12, "replace_one"): 5.5127, (24, "replace_one"): 8.9011, (60, "replace_one"): 16.5629},
    }[horizon, relation]
    chosen = totals(horizon, relation)
    assert chosen.rmse * UNIT / separate == pytest.approx(rms, abs=1e-4)
    largest = float(chosen.worst_variance) ** 0.5
    assert largest * UNIT / separate == pytest.approx(worst, abs=1e-4)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_in_place"])
def test_refined_totals_are_better_at_every_horizon(relation, present):
    for horizon in range(2, MOST_REFINED + 1):
        better = totals(horizon, relation, present=present)
        closed = totals(horizon, relation, present=present, refined=False)
        assert better.rmse < closed.rmse * (1 + 1e-4), horizon
        assert better.worst_sum_variance < Fraction(6, 5) * closed.worst_sum_variance, horizon


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 12, 24, 36])
def test_no_sum_is_worse_than_with_separate_counters(horizon, relation, present):
    better = totals(horizon, relation, present=present)
    separate = totals(horizon, relation, present=present, refined=False, counter="tree")
    for t in range(1, horizon + 1):
        for b in range(0 if present else 1, t + 1):
            assert better.variance(b, t) <= separate.variance(b, t) * (1 + 1e-4), (b, t)


def test_periods_without_rows_of_their_own_use_the_next_longer():
    assert totals(26).budget.strategy is totals(37).budget.strategy
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
def test_the_optimiser_finds_rows_as_good_as_those_of_the_table(public_size):
    def error(strategy):
        table = strategy.pair if public_size else strategy.single
        return np.concatenate(strategy.gains).mean() * table.without_entries[-1]

    stored = refined_strategy(public_size=public_size, periods=6)
    found = refined(6, public_size=public_size)
    assert error(found) == pytest.approx(error(stored), rel=0.01)


@pytest.mark.parametrize("kind", ["cumulative", "joint"])
def test_a_study_declares_refined_totals(kind):
    declared = (
        cumulative("c", "x", [1], "1/200", refined=True)
        if kind == "cumulative"
        else joint("c", "x", 2, [1], "1/200", refined=True)
    )
    study = study_with(declared, size=100)
    chosen = mechanism(study, study.releases[0])
    part = chosen.totals if kind == "joint" else chosen
    assert part.refined
    assert part.as_stored() == NONE
    plan = plan_study(study)
    assert "one coupled measurement, refined" in plan.text()
    assert plan.total == RHO


@pytest.mark.parametrize(
    ("more", "periods", "message"),
    [
        ({}, 61, r"refined: weights are refined for at most 60 periods, not 61; remove it"),
        ({"counter": "tree"}, 6, r"refined: .*separate counters .*; remove it"),
    ],
)
def test_what_cannot_be_refined_is_refused(more, periods, message):
    release = cumulative("c", "x", [1], "1/200", refined=True, **more)
    with pytest.raises(UserError, match=message):
        study_with(release, periods, size=100)
    with pytest.raises(ValueError, match="at most 60 periods"):
        totals(periods, **more)


@pytest.mark.parametrize("kind", ["cumulative", "joint"])
def test_analysts_answer_and_verify_from_the_study_alone(kind):
    more = {"refined": True, "event": [1], "attribute": "x", "rho": "1/200"}
    release = {"name": "c", "kind": kind, **more, **({"width": 2} if kind == "joint" else {})}
    study = study_with(release, size=40)
    generator = np.random.default_rng(2)
    cells = [(f"p{i}", t, int(generator.random() < 0.3)) for t in range(1, 7) for i in range(40)]
    columns = [list(column) for column in zip(*cells, strict=True)]
    reports = pa.table(dict(zip(("person", "period", "x"), columns, strict=True)))
    public = run_study(study, reports, simulation_seed=1)
    assert public.verify()
    chosen = mechanism(study, study.releases[0])
    part = chosen.totals if kind == "joint" else chosen
    assert "refined" in public.releases[-1].certificate.mechanism
    answer = public.answer("c", "total at-least 2", "6", count=True)
    assert answer.standard_error <= part.variance(2, 6) ** 0.5 * (1 + 1e-4)
    if kind == "cumulative":
        assert answer.standard_error == pytest.approx(part.variance(2, 6) ** 0.5, rel=1e-4)
