"""Fits: what is always true of them, what they repeat, and how near they come."""

from fractions import Fraction
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.region_trees import BLOCKS, hawaii, tree, trees

from stream_dp.batch.sizes import sizes_fit as fit_module
from stream_dp.batch.sizes.histogram import Estimate, Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import Merge
from stream_dp.batch.sizes.size_estimates import METHODS
from stream_dp.batch.sizes.sizes_fit import fit_levels
from stream_dp.batch.sizes.sizes_plan import (
    SizesPlan,
    default_methods,
    level_plan,
    omniscient_error,
)
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

REGIONS, LEAVES = tree(
    {
        ("n", "1"): [0, 0, 1, 1, 2, 5],
        ("n", "2"): [3],
        ("s", "1"): [1] * 40 + [7, 9, 30],
        ("s", "2"): [],
    }
)


def plan_of(regions, *, budget=Fraction(1, 2), methods=None, largest=20, **more):
    methods = methods or default_methods(regions)
    candidates = [(m,) if isinstance(m, str) else m for m in methods]
    levels = tuple(level_plan("add_remove", names, budget, **more) for names in candidates)
    return SizesPlan(regions, largest, levels)


def fitted(regions, leaves, plan, seed=1, transcript=None):
    return fit_levels(leaves, plan, FitContext(SeededNoise(seed), transcript or MemoryTranscript()))


methods = st.sampled_from([*METHODS, tuple(METHODS)])


@given(trees(), st.data())
@settings(max_examples=120, deadline=None)
def test_what_is_always_true_of_a_result(example, data):
    regions, leaves = example
    chosen = [data.draw(methods) for _ in range(regions.depth)]
    pure = data.draw(st.booleans()) and all(isinstance(level, str) for level in chosen)
    plan = plan_of(
        regions,
        methods=chosen,
        budget=data.draw(st.fractions(Fraction(1, 500), 5)),
        largest=data.draw(st.integers(1, 15)),
        pure=pure,
    )
    fit = fitted(regions, leaves, plan)
    merge = data.draw(st.sampled_from([None, *Merge]))
    sizes = fit.sizes if merge is None else fit.merged(merge)
    assert len(sizes) == regions.depth
    for depth, level in enumerate(sizes):
        assert [s.total for s in level] == regions.counts[depth].tolist()
        for region in level:
            assert region.size.dtype == region.groups.dtype == np.int64
            assert (region.size >= 0).all()
            assert (region.size <= plan.largest).all()
            assert (np.diff(region.size) > 0).all()
            assert (region.groups > 0).all()
    for depth in range(1, regions.depth):
        for parent, family in zip(
            sizes[depth - 1], regions.children(sizes[depth], depth), strict=True
        ):
            together = np.sum([child.histogram(plan.largest) for child in family], axis=0)
            assert parent.histogram(plan.largest).tolist() == together.tolist()


def text(sizes):
    return [[(s.size.tolist(), s.groups.tolist()) for s in level] for level in sizes]


@pytest.mark.parametrize("published", [1 << 20, 0])
def test_a_fit_continues_from_its_transcript_and_never_draws_a_level_again(published, monkeypatch):
    monkeypatch.setattr(fit_module, "MOST_PUBLISHED", published)
    plan = plan_of(REGIONS, methods=[tuple(METHODS), "cumulative", "sorted"])
    transcript = MemoryTranscript()
    first = fitted(REGIONS, LEAVES, plan, seed=1, transcript=transcript)
    assert (first.levels[0].values is None) == (published == 0)
    for kept in range(4):
        part = MemoryTranscript(transcript.recorded[:kept])
        again = fitted(REGIONS, LEAVES, plan, seed=2, transcript=part)
        assert part.recorded[:kept] == transcript.recorded[:kept]
        assert [level.plan for level in again.levels[:kept]] == [
            level.plan for level in first.levels[:kept]
        ]
    assert text(again.sizes) == text(first.sizes)


def test_a_recorded_round_counts_and_not_the_own_draw():
    class Twin(MemoryTranscript):
        """Another worker recorded every round first."""

        def record(self, number, data):
            return super().record(number, other.recorded[number])

    plan, other = plan_of(REGIONS), MemoryTranscript()
    first = fitted(REGIONS, LEAVES, plan, seed=1, transcript=other)
    second = fitted(REGIONS, LEAVES, plan, seed=2, transcript=Twin())
    assert text(first.sizes) == text(second.sizes)


def test_a_transcript_of_something_else_is_refused():
    transcript = MemoryTranscript()
    fitted(REGIONS, LEAVES, plan_of(REGIONS), transcript=transcript)
    first = msgspec.msgpack.decode(transcript.recorded[0])
    unknown = msgspec.msgpack.encode((first[0] + 1, *first[1:]))
    assert first[0] == fit_module.FORMAT == 1
    for wrong in (b"", b"\xc0", transcript.recorded[1], transcript.recorded[0][:-1], unknown):
        with pytest.raises(UserError, match="transcript"):
            fitted(REGIONS, LEAVES, plan_of(REGIONS), transcript=MemoryTranscript([wrong]))


@pytest.mark.parametrize("scale", [0.95, 1, 1.05])
@pytest.mark.parametrize("pure", [False, True])
def test_a_naive_histogram_has_the_variance_of_the_plan(pure, scale):
    regions, leaves = tree({("a",): [3] * 20, ("b",): [1] * 15})
    plan = plan_of(regions, methods=["naive"] * 2, largest=30_000, pure=pure)
    (root, _) = fitted(regions, leaves, plan).levels
    errors = (root.values[0] - Sizes.together(leaves).histogram(30_000)) * scale
    squares = errors**2 / root.plan.variance
    near = abs(squares.mean() - 1) < 5 * squares.std() / len(squares) ** 0.5
    assert near == (scale == 1)


def test_the_better_method_is_chosen():
    """Of a naive histogram with 2,000 empty sizes and cumulative counts."""
    regions, leaves = tree({("a",): [1] * 300 + [2] * 300})
    plan = plan_of(regions, methods=[("naive", "cumulative")] * 2, largest=2000)
    levels = fitted(regions, leaves, plan).levels
    assert [level.plan.method for level in levels] == ["cumulative", "cumulative"]


@pytest.mark.parametrize("difference", [0, 20])
def test_a_choice_is_that_of_the_exponential_mechanism(difference, monkeypatch):
    """The better of two methods is selected with the odds of the difference over twice its scale.

    A difference of distances of 20 at a scale of b is selected with odds exp(20 / b).
    """
    regions, leaves = tree({("a",): [1] * 30})
    plan = plan_of(regions, methods=[("naive", "cumulative"), "sorted"], budget=Fraction(1, 40))
    choice, source = plan.levels[0], SeededNoise(3)
    distances = iter(np.tile([difference, 0], 3000).tolist())
    monkeypatch.setattr(fit_module, "earth_movers_distance", lambda *_: next(distances))
    level = fit_module._Level(plan, 0, source)
    monkeypatch.setattr(
        fit_module._Level, "_estimated", lambda self, plan, true: iter([Estimate.of(leaves[0])])
    )
    picked = [level._chosen(choice, leaves).method for _ in range(3000)]
    share = picked.count("cumulative") / len(picked)
    odds = np.exp(difference / float(choice.selection_variance) ** 0.5)
    assert share == pytest.approx(odds / (1 + odds), abs=4 * 0.5 / 3000**0.5)
    if difference:
        for scale in (0.8, 1.25):
            other = odds**scale
            assert share != pytest.approx(other / (1 + other), abs=0.5 / 3000**0.5)


@pytest.mark.parametrize("scale", [0.95, 1, 1.05])
@pytest.mark.parametrize("pure", [False, True])
def test_noisy_values_have_the_variance_of_the_plan(pure, scale):
    regions, leaves = tree({("a",): [3] * 15_000, ("b",): [1] * 15_000})
    methods = ["cumulative-squares", "sorted"]
    plan = plan_of(regions, methods=methods, budget=Fraction(1, 5), largest=30_000, pure=pure)
    exact = (
        Sizes.together(leaves).cumulative(30_000),
        np.concatenate([leaf.sorted() for leaf in leaves]),
    )
    for depth, level in enumerate(fitted(regions, leaves, plan).levels):
        errors = (np.concatenate(level.values) - exact[depth]) * scale
        squares = errors**2 / level.plan.variance
        near = abs(squares.mean() - 1) < 5 * squares.std() / len(squares) ** 0.5
        assert near == (scale == 1)


def errors(regions, leaves, plan, runs, merges=(None,)):
    """Mean earth mover's distances by level: of the estimates, and of the consistent sizes by each
    way to merge them; None: the product's."""
    true = regions.sums(leaves)
    errors = [[] for _ in range(1 + len(merges))]
    for seed in range(runs):
        result = fitted(regions, leaves, plan, seed=seed)
        estimates = [[e.sizes for e in level.estimates] for level in result.levels]
        merged = [result.sizes if how is None else result.merged(how) for how in merges]
        for each, levels in zip(errors, (estimates, *merged), strict=True):
            each.append(
                [
                    sum(map(earth_movers_distance, level, truth))
                    for level, truth in zip(levels, true, strict=True)
                ]
            )
    return np.mean(errors, axis=1)


@pytest.mark.skipif(not BLOCKS.exists(), reason="needs the census blocks")
@pytest.mark.parametrize(
    "eps", [pytest.param(Fraction(3, 10), marks=pytest.mark.slow), Fraction(2)]
)
def test_merging_census_blocks_loses_at_no_level_and_stays_within_the_yardstick(eps):
    regions, leaves = hawaii("pop_nhpi")
    plan = plan_of(regions, budget=eps**2 / 2, largest=2000)
    # Fits and merges are dear where there is much noise.
    runs, others = (2, [Merge.WEIGHTED, Merge.PLAIN]) if eps > 1 else (1, [])
    before, after, *worse = errors(regions, leaves, plan, runs, [None, *others])
    assert (after <= before).all()
    for level, truth, error in zip(plan.levels, regions.sums(leaves), after, strict=True):
        distinct = sum(len(sizes.size) for sizes in truth)
        assert error <= 1.5 * omniscient_error(distinct, level.variance**0.5)
    roots = [after[0], *(merged[0] for merged in worse)]
    assert all(better < other for better, other in pairwise(roots))


@pytest.mark.slow
@pytest.mark.skipif(not BLOCKS.exists(), reason="needs the census blocks")
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("eps", [Fraction(n, 10) for n in (1, 2, 5, 10, 20)])
@pytest.mark.parametrize("column", ["pop_nhpi", "pop_white"])
def test_ten_fits_of_census_blocks_lose_nothing_in_the_mean(column, eps, pure):
    regions, leaves = hawaii(column)
    budget = eps if pure else eps**2 / 2
    for methods in (None, ["sorted"] * 3):
        plan = plan_of(regions, budget=budget, largest=5000, pure=pure, methods=methods)
        before, after = errors(regions, leaves, plan, 10)
        assert (after <= before).all()


def test_what_the_root_is_sure_of_is_not_lost_to_regions_of_unequal_size():
    """Sizes 1 to 7, each of hundreds of groups in the whole, and noise of ten steps."""
    rng = np.random.default_rng(1)
    shares = [0.28, 0.34, 0.15, 0.13, 0.06, 0.025, 0.015]
    weights = rng.pareto(1.1, 400) + 0.01
    counts = np.maximum(np.round(30_000 * weights / weights.sum()), 1).astype(int)
    regions, leaves = tree(
        {
            (f"{i % 10}", f"{i:03}"): rng.choice(np.arange(1, 8), n, p=shares).tolist()
            for i, n in enumerate(counts)
        }
    )
    methods = [*["cumulative-squares"] * 2, "sorted"]
    plan = plan_of(regions, budget=Fraction(1, 200), largest=50, methods=methods)
    before, after = errors(regions, leaves, plan, 2)
    # Without what stays as the root has it, the root's error doubles.
    assert (after <= before * [1.4, 1, 1]).all()
