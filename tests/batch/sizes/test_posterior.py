"""Likeliest consistent sizes: probabilities by enumeration, what is always true, the fallback."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.region_trees import tree, trees
from scipy.special import expit

from stream_dp.batch.sizes import posterior
from stream_dp.batch.sizes.chains import Evidence, chain, counts_of, prior_slope
from stream_dp.batch.sizes.posterior import allocated, medians
from stream_dp.batch.sizes.size_estimates import METHODS
from stream_dp.batch.sizes.sizes_fit import fit_levels
from stream_dp.batch.sizes.sizes_plan import LevelPlan, SizesPlan
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise

LEVEL = LevelPlan("add_remove", "sorted", Fraction(1, 2))  # noise of variance 1


def a_chain(method, values, total, sizes, states, level=LEVEL):
    estimate = METHODS[method].fit(np.array(values), total, len(values))
    return chain(
        estimate,
        np.array(values),
        level.penalty,
        sizes=sizes,
        states=states,
        cumulative=method != "sorted",
    )


def by_enumeration(method, values, total, sizes, evidence, level=LEVEL):
    """The probability of every count at every size, (sizes, total + 1)."""
    penalty, values = level.penalty, np.array(values)
    logs, counts = [], []
    for rising in itertools.combinations_with_replacement(range(total + 1), sizes):
        c = np.array(rising)
        if method == "sorted":
            size = [next((s for s in range(sizes) if c[s] > i), sizes) for i in range(total)]
            log = -penalty(values - np.array(size)).sum()
        else:
            log = -penalty(values[:sizes] - c).sum()
        log += evidence.slope @ c - (evidence.precision * (c - evidence.mean) ** 2).sum() / 2
        logs.append(log)
        counts.append(c)
    weights = np.exp(np.array(logs) - max(logs))
    table = np.zeros((sizes, total + 1))
    for weight, c in zip(weights, counts, strict=True):
        table[np.arange(sizes), c] += weight / weights.sum()
    return table


@given(st.data(), st.sampled_from(["sorted", "cumulative-squares"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_probabilities_are_those_of_all_rising_counts(data, method, pure):
    level = LevelPlan("add_remove", method, Fraction(1, 2), pure=pure)
    total, sizes = data.draw(st.integers(1, 4)), 4
    count = total if method == "sorted" else sizes
    values = data.draw(st.lists(st.integers(-2, 7), min_size=count, max_size=count))
    numbers = st.lists(st.floats(-1, 1), min_size=sizes, max_size=sizes).map(np.array)
    evidence = Evidence(data.draw(numbers), total * data.draw(numbers), data.draw(numbers) ** 2)
    one = a_chain(method, values, total, sizes, total + 1, level)
    (known,) = counts_of([one], [evidence])
    table = by_enumeration(method, values, total, sizes, evidence, level)
    assert known.mean == pytest.approx(table @ np.arange(total + 1), abs=1e-6)
    square = table @ np.arange(total + 1) ** 2
    assert known.variance == pytest.approx(square - known.mean**2, abs=1e-5)
    below = expit(known.odds.astype(float))
    assert below == pytest.approx(np.cumsum(table, axis=1), abs=1e-5)


def test_several_regions_together_are_as_each_alone():
    rng = np.random.default_rng(1)
    chains = [
        a_chain("sorted", np.sort(rng.integers(0, 9, n)) + rng.integers(-1, 2, n), n, sizes, 7)
        for n, sizes in ((3, 4), (12, 12), (8, 9))
    ]
    slope = prior_slope(np.linspace(1, 0.1, 12))
    evidence = [Evidence(slope, np.zeros(12), np.zeros(12))] * 3
    together = counts_of(chains, evidence)
    for one, own in zip(chains, together, strict=True):
        (alone,) = counts_of([one], evidence[:1])
        assert own.mean == pytest.approx(alone.mean)
        assert own.odds == pytest.approx(alone.odds, rel=1e-5)
        assert (own.mean[one.sizes :] == one.total).all()


def test_evidence_that_contradicts_a_measurement_beyond_all_measure_is_borne():
    one = a_chain("sorted", [0] * 30 + [9] * 30, 60, 12, 21)
    wrong = Evidence(np.full(12, -900.0), np.full(12, 60.0), np.full(12, 1e4))
    (known,) = counts_of([one], [wrong])
    assert np.isfinite(known.mean).all()
    assert (np.diff(known.mean) >= -1e-9).all()


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_children_get_what_their_parent_has_in_rising_counts(data):
    sizes, states = 6, data.draw(st.sampled_from([3, 5, 21]))
    children, totals = [], data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    for i, total in enumerate(totals):
        values = data.draw(st.lists(st.integers(-3, 9), min_size=total, max_size=total))
        children.append(
            a_chain("sorted", values, total, data.draw(st.integers(1, sizes)), states - i % 2)
            if total
            else a_chain("sorted", np.zeros(0, np.int64), 0, 0, states)
        )
    none = Evidence(np.zeros(sizes), np.zeros(sizes), np.zeros(sizes))
    known = counts_of(children, [none] * len(children))
    most = sum(totals)
    drawn = data.draw(st.lists(st.integers(0, most), min_size=sizes, max_size=sizes))
    parent = np.sort(np.array(drawn))
    parts = np.array(allocated(parent, known))
    assert (parts.sum(axis=0) == parent).all()
    assert (np.diff(parts, axis=1) >= 0).all()
    assert (parts >= 0).all()
    assert (parts <= np.array(totals)[:, None]).all()
    # What nothing forces is the median of each, and so of the least expected distance.
    free = np.array([medians(each, sizes) for each in known])
    if states > 9:
        again = np.array(allocated(free.sum(axis=0), known))
        below = np.stack([each.log_odds(0, sizes, states) for each in known])
        cost = 2 * expit(below.astype(float)) - 1
        low = np.stack([each.chain.least(sizes) for each in known])

        def distance(x):
            steps = np.arange(states)[None, None, :] < (x - low)[:, :, None]
            return (cost * steps).sum()

        assert distance(again) == pytest.approx(distance(free), abs=1e-5)


@given(trees(), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_always_true_of_the_likeliest_sizes(example, data):
    regions, leaves = example
    chosen = st.sampled_from(["sorted", "cumulative-squares", "cumulative"])
    pure, budget = data.draw(st.booleans()), data.draw(st.fractions(Fraction(1, 500), 50))
    largest = data.draw(st.integers(1, 15))
    levels = tuple(
        LevelPlan("replace_one", data.draw(chosen), budget, pure=pure) for _ in range(regions.depth)
    )
    plan = SizesPlan(regions, largest, levels)
    fitted = fit_levels(leaves, plan, FitContext(SeededNoise(1)))
    sizes = fitted._likeliest()
    assert sizes is not None
    assert fitted.sizes is not None
    for depth, level in enumerate(sizes):
        assert [each.total for each in level] == regions.counts[depth].tolist()
        for each in level:
            assert (each.size >= 0).all()
            assert (each.size <= largest).all()
    for parent, family in zip(sizes[0], regions.children(sizes[1], 1), strict=True):
        together = np.sum([child.histogram(largest) for child in family], axis=0)
        assert parent.histogram(largest).tolist() == together.tolist()


REGIONS, LEAVES = tree(
    {("n",): [0] * 9 + [1, 1, 2, 5, 8], ("s",): [0] * 20 + [1] * 7 + [4, 4, 9], ("t",): []}
)
PLAN = SizesPlan(
    REGIONS,
    12,
    (
        LevelPlan("add_remove", "cumulative-squares", Fraction(1, 3)),
        LevelPlan("add_remove", "sorted", Fraction(1, 3)),
    ),
)


def fit(seed, recorded=(), **kind):
    transcript = kind.get("transcript") or MemoryTranscript(list(recorded))
    return fit_levels(LEAVES, PLAN, FitContext(SeededNoise(seed), transcript)), transcript


def text(fitted):
    return [[(s.size.tolist(), s.groups.tolist()) for s in level] for level in fitted.sizes]


def test_what_is_too_large_or_not_published_is_merged(monkeypatch):
    fitted, _ = fit(3)
    assert fitted._likeliest() is not None
    hidden = replace(fitted, levels=(replace(fitted.levels[0], values=None), fitted.levels[1]))
    assert hidden._likeliest() is None
    monkeypatch.setattr(posterior, "MOST_CELLS", 10)
    fresh, _ = fit(3)
    assert fresh._likeliest() is None
    assert text(fresh) == text(replace(fitted, levels=hidden.levels))
