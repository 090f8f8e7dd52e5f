"""Two-phase tables of people: the compressed domain and its inverse, and what both phases cost."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.small_groups import Never, Silent
from kit.studies import attribute, small_study
from people_tables import CountedNoise, domain

from stream_dp.batch.people.compression import (
    REST,
    Compression,
    Encoding,
    MergedColumn,
    NoisyColumn,
)
from stream_dp.batch.people.match_plan import MatchPlan
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_plan import MANY_PEOPLE
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease

RELATIONS = ("add_remove", "replace_one", "replace_in_place")
NUMBER = {"number": {"least": 0, "most": 8, "step": 2}, "bins": [2, 4, 6], "missing": 0}


def study(relation="add_remove", size=40, **release):
    base = {"name": "p", "kind": "match", "attributes": list("nxyz"), "rho": 1, "every": 1}
    declared = {"composites": {"w": ["x", "y"]}, "coarser": {"n": [4]}, **release}
    return small_study(
        neighbours=relation,
        size=None if relation == "add_remove" else size,
        rho=3,
        attributes={
            **{"n": NUMBER, "x": attribute([0, 1], missing=0)},
            **{"y": attribute(list("abc"), missing="a"), "z": attribute(list("uvw"), missing="u")},
        },
        releases=[{**base, **declared}],
    )


def plan_of(declared):
    release = declared.batches[0]
    return MatchPlan(Encoding.of(study_people(declared, release), release), release)


def answered(residuals, phases, people, noise=0):
    """The answers of phases, exact or with noise of about this size."""
    answers, rng = NoisyAnswers.none(), np.random.default_rng(3)
    for phase in phases:
        values = residuals.counter(people)(phase.candidates)
        values = values + rng.integers(-noise, noise + 1, len(values))
        variances = phase.variances(residuals)
        answers = answers.joined(residuals, phase.candidates, values, variances)
    return answers


def measured(plan, domain, people):
    """What the second phase may measure, and its phases."""
    second = plan.second(domain, people)
    return second.workload, second.phases(people)


EVERYBODY = list(product(range(5), range(2), range(3), range(3)))
HERE = [(0, 0, 1, 0)] * 20 + [(4, 1, 2, 1)] * 15 + [(3, 0, 0, 2)] * 3 + [(1, 1, 1, 1)]


def counts(residuals, phase, people):
    """What a phase measures, by candidate."""
    counter = residuals.counter(people)
    return [counter([i]) for i in phase.candidates]


def spent(variances, before, after):
    """The cost of telling two tables apart by the counts of a phase."""
    squares = [int(np.square(a - b).sum()) for a, b in zip(before, after, strict=True)]
    return sum(map(Fraction, squares, (2 * v for v in variances)), Fraction(0))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("listed", [None, [["w", "n"], {"of": ["z"], "weight": 2}]])
def test_both_phases_cost_rho_over_all_answers(relation, listed):
    """By brute force: whatever one person answers, before and after values are merged."""
    declared = study(relation, **({"marginals": [listed[0]]} if listed else {}))
    if listed:
        release = declared.batches[0].model_copy(update={"marginals": (("w", "n"),)})
        declared = declared.model_copy(update={"batches": (release,)})
    plan = plan_of(declared)
    source = plan.encoding.source

    def coded(rows):
        return plan.encoding.coded(People.of_answers(source, np.array(rows)))

    singles, first = plan.first.workload, plan.first.phases(MANY_PEOPLE)
    compression = plan.compression(answered(singles, first, coded([*HERE, EVERYBODY[0]]), 1))
    assert compression.columns[1].merged > 1
    # As many people as triples are worth measuring for.
    residuals, (second,) = measured(plan, compression.domain, 10**6)
    assert {len(a) for a in residuals.sets} == ({2} if listed else {2, 3})

    def of_phases(*person):
        """The counts of every phase with one person more; the last is the second phase."""
        people = coded([*HERE, *person])
        of_second = counts(residuals, second, compression.merged(people))
        return [*(counts(singles, phase, people) for phase in first), of_second]

    everybody = [of_phases(x) for x in EVERYBODY]
    before = [of_phases()] if relation == "add_remove" else everybody[::7]
    variances = [
        [phase.variances(workload)[i] for i in phase.candidates]
        for workload, phase in [*((singles, phase) for phase in first), (residuals, second)]
    ]
    of_first = together = Fraction(0)
    for pair in product(before, everybody):
        costs = [*map(spent, variances, *pair)]
        of_first = max(of_first, sum(costs[:-1], Fraction(0)))
        together = max(together, sum(costs))
    assert of_first == Fraction(1, 4)
    assert together == 1


def test_weights_divide_the_noise():
    declared = study(marginals=[{"of": ["z"], "weight": 2}, {"of": ["n", "z"], "weight": 3}])
    release = declared.batches[0]
    plain = release.model_copy(update={"marginals": (("n", "z"), ("w", "z"))})
    weighted = release.model_copy(update={"marginals": (*release.marginals, *plain.marginals[1:])})
    encoding = Encoding.of(study_people(declared, release), release)
    ratios = []
    for own in (plain, weighted):
        plan = MatchPlan(encoding, own)
        variances = plan.first.phases(MANY_PEOPLE)[1].variances(plan.first.workload)
        ratios.append(variances[1] / variances[3])
        residuals, (phase,) = measured(plan, encoding.domain, MANY_PEOPLE)
        assert residuals.sets == ((0, 2), (1, 2))
        each = phase.variances(residuals)
        ratios.append(each[1] / each[0])
    assert ratios[2] == 4 * ratios[0]
    assert ratios[3] == 9 * ratios[1]


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_the_compressed_domain_and_back(data):
    """Groups divide the values; drawn values lie in their groups; what stands apart is kept."""
    n = data.draw(st.integers(2, 12))
    entries = np.array(data.draw(st.lists(st.integers(-400, 400), min_size=n, max_size=n)))
    public = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    public = np.unique(public, return_inverse=True)[1]
    if public.max() == 0:
        public = np.arange(n)
    noisy = NoisyColumn(
        entries,
        variance=data.draw(st.fractions(1, 50)),
        people=data.draw(st.integers(0, 200)),
        people_variance=data.draw(st.fractions(0, 50)),
    )
    merged = MergedColumn.of(noisy, public, data.draw(st.fractions(0, 5)), data.draw(st.booleans()))
    assert sorted(v for group in merged.groups for v in group) == list(range(n))
    assert 2 <= len(merged.groups) <= n
    for group in merged.groups[: -1 if merged.rests else None]:
        assert len(set(public[list(group)])) == 1
    source = domain(n, 2)
    other = NoisyColumn(np.array([1, -1]), Fraction(1), 100, Fraction(0))
    alone = MergedColumn.of(other, np.arange(2), Fraction(0), exempt=True)
    compression = Compression(source, (merged, alone))
    assert compression.domain.sizes == (len(merged.groups), 2)
    assert (REST in compression.domain.columns[0].values) == (merged.rests > 0)
    rng = np.random.default_rng(0)
    people = People(source, np.stack([rng.integers(0, n, 50), rng.integers(0, 2, 50)], axis=1))
    groups = compression.merged(people)
    back = compression.undone(groups.codes, rng)
    assert (compression.merged(People(source, back)).codes == groups.codes).all()
    apart = [g for g, values in enumerate(merged.groups) if len(values) == 1]
    rows = np.isin(groups.codes[:, 0], apart)
    assert (back[rows] == people.codes[rows]).all()
    assert (back[:, 1] == people.codes[:, 1]).all()


@given(st.integers(0, 60), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_a_value_is_merged_exactly_where_its_count_is_below_the_threshold(count, scale):
    """Two residuals of a value: the noisy count at the threshold, and one person below it."""
    n, variance, people = 5, Fraction(9, scale), 500
    rest = people - count - 300
    counts = np.array([300, count, rest // 3, rest // 3, rest - 2 * (rest // 3)])
    noisy = NoisyColumn(n * counts - people, variance, people, Fraction(2))
    # The count is an entry, less the mean of all n, plus the number of people, over n.
    own = (variance * (1 - Fraction(1, n)) + 2) / n**2
    assert noisy.scaled([1]) == n * n * count
    assert noisy.scaled_variance(1) == n**4 * own
    merged = MergedColumn.of(noisy, np.arange(n), Fraction(7), exempt=False)
    low = [v for v in range(n) if Fraction(int(counts[v])) ** 2 < 49 * own]
    assert merged.merged == (len(low) if len(low) > 1 else 0)


def test_low_values_are_drawn_by_their_noisy_counts():
    counts = np.array([900, 0, 6, 12, -3])
    noisy = NoisyColumn(5 * counts - counts.sum(), Fraction(25 * 100), 915, Fraction(0))
    merged = MergedColumn.of(noisy, np.arange(5), Fraction(3), exempt=False)
    assert (merged.groups, merged.rests) == (((0,), (1, 2, 3, 4)), 1)
    rng = np.random.default_rng(1)
    drawn = merged.values(np.repeat([0, 1], [10, 30]), rng)
    assert np.bincount(drawn, minlength=5).tolist() == [10, 0, 10, 20, 0]
    nobody = NoisyColumn(np.array([40, -10, -10, -10, -10]), Fraction(1), 10, Fraction(0))
    merged = MergedColumn.of(nobody, np.arange(5), Fraction(3), exempt=False)
    drawn = merged.values(np.ones(40, np.int64), rng)
    assert np.bincount(drawn, minlength=5).tolist() == [0, 10, 10, 10, 10]
    known = merged.known(0)
    assert known.values.tolist() == pytest.approx([5, -5])


def test_composites_and_numbers_are_split_again():
    encoding = plan_of(study()).encoding
    assert encoding.names == ("n", "w", "z")
    assert encoding.domain.columns[1].values[:3] == ("0&a", "0&b", "0&c")
    assert encoding.public_groups(0).tolist() == [0, 0, 1, 1]
    assert encoding.public_groups(1).tolist() == list(range(6))
    people = People.of_answers(encoding.source, np.array(EVERYBODY))
    coded = encoding.coded(people)
    back = encoding.decoded(coded.codes, np.random.default_rng(0))
    assert (back.codes == people.codes).all()
    points = back.numbers[0]
    assert (np.searchsorted([1, 2, 3], points, side="right") == people.codes[:, 0]).all()
    joint = encoding.public_groups(1)
    assert len(joint) == encoding.domain.sizes[1]


def test_what_is_measured_by_default_follows_from_what_is_declared():
    """All pairs, or the 300 of fewest cells; a triple that is too large leaves its pairs."""
    encoding = plan_of(study()).encoding
    release = study().batches[0]
    plan = MatchPlan(encoding, release)
    assert plan.pairs == [(0, 1), (0, 2), (1, 2)]
    assert plan.triples(encoding.domain) == [(0, 1, 2)]
    assert len(plan.by_default(encoding.domain, 5)[0].sets) == 3
    many = Encoding.of(
        domain(*[2] * 25, 30), release.model_copy(update={"composites": None, "coarser": None})
    )
    names = tuple(f"c{i}" for i in range(26))
    many = Encoding(many.source, names, tuple((i,) for i in range(26)), {})
    pairs = MatchPlan(many, release).pairs
    assert len(pairs) == 300
    assert all(25 not in a for a in pairs)
    wide = Encoding(domain(30, 30, 30), names[:3], ((0,), (1,), (2,)), {})
    listed = release.model_copy(update={"marginals": (("c0", "c1", "c2"),)})
    plan = MatchPlan(wide, listed)
    assert plan.second(wide.domain, 10**9).workload.sets == ((0, 1), (0, 2), (1, 2))
    assert plan.dropped(wide.domain) == ("c0, c1, c2",)


def skewed(n, values, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.2, (n, columns)) - 1, values - 1)


def wide_release(columns=3, **more):
    names = tuple(f"c{i}" for i in range(columns))
    return MatchRelease(name="p", kind="match", attributes=names, rho=1, every=1, **more)


@pytest.mark.parametrize("moves", [True, False])
def test_what_is_drawn_costs_rho_and_is_never_drawn_again(moves):
    pytest.importorskip("jax")
    from stream_dp.batch.people.people_synthesizer import fit_match

    codes = skewed(900, 20)
    own = domain(20, 20, 20, moves=moves, replaced=not moves, size=None if moves else 900)
    people, release = People(own, codes), wide_release(marginals=(("c0", "c1"), ("c1", "c2")))
    source, transcript, seen = CountedNoise(1), MemoryTranscript(), []
    context = FitContext(source, transcript, lambda *at: seen.append(at[:2]))
    fit = fit_match(people, release, context)
    rounds = 2 + moves
    assert seen == [(i, rounds) for i in range(1, rounds + 1)]
    drawn = [demand for demand in source.demands if demand]
    assert len(drawn) == rounds == fit.notes["rounds"]
    costs = [
        PairFilter(part.workload).charged(picked, [variance for variance, _ in demand]).spent
        for part, picked, demand in zip(
            [fit.first] * (rounds - 1) + [fit.second],
            (*fit.first.picked, *fit.second.picked),
            drawn,
            strict=True,
        )
    ]
    assert sum(costs[:-1]) == Fraction(1, 4)
    assert costs[-1] == Fraction(3, 4)
    assert len(fit.measurements.queries) == sum(n for demand in drawn for _, n in demand)
    assert fit.notes["values_merged"] != "none"
    assert any(f"c0={REST}" in text for text in fit.measurements.queries)
    sample = fit.sample(7)
    for known in (rounds, rounds + 1):
        # Killed after so many rounds; what is left is what a twin has recorded first.
        twin = Twin(transcript.recorded[:known], transcript.recorded)
        noise = SeededNoise(2) if known < rounds + 1 else Never()
        again = fit_match(people, release, FitContext(noise, twin))
        assert (again.sample(7).codes == sample.codes).all()
        assert twin.recorded == transcript.recorded


class Twin(MemoryTranscript):
    """A transcript in which another worker is always first."""

    def __init__(self, recorded, theirs):
        super().__init__(list(recorded))
        self.theirs = theirs

    def record(self, number, data):
        return super().record(number, self.theirs[number])


def test_shares_that_were_measured_without_noise_are_the_true_ones(monkeypatch):
    """A composite and coarser bins; a marginal of merged values counts as not measured."""
    pytest.importorskip("jax")
    from stream_dp.batch.people import people_synthesizer
    from stream_dp.batch.people.mixture_model import BlockMixture

    monkeypatch.setattr(BlockMixture, "learn", lambda self, measured: (self, float("nan")))
    declared = study("replace_one", size=len(EVERYBODY) + 200)
    release = declared.batches[0]
    source = study_people(declared, release)
    answers = np.array([*EVERYBODY, *[EVERYBODY[0]] * 150, *[EVERYBODY[-1]] * 50])
    people = People.of_answers(source, answers)
    fit = people_synthesizer.fit_match(people, release, FitContext(Silent()))
    assert fit.notes["values_merged"] == "none"
    assert fit.measured == {(0,), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3)}
    for columns in fit.measured:
        true = marginal_counts(people, columns) / people.N
        assert fit.shares(columns) == pytest.approx(true, abs=1e-12)


def test_the_noise_of_both_phases_is_what_is_stated(monkeypatch):
    """Noise 5 % larger or smaller than its stated variance would fail."""
    pytest.importorskip("jax")
    from stream_dp.batch.people import people_synthesizer
    from stream_dp.batch.people.mixture_model import BlockMixture

    monkeypatch.setattr(BlockMixture, "learn", lambda self, measured: (self, float("nan")))
    own = domain(250, 250, 250)
    people = People(own, skewed(40_000, 250))
    squares = {"first": [], "second": []}
    for seed in range(30):
        fit = people_synthesizer.fit_match(people, wide_release(), FitContext(SeededNoise(seed)))
        coded = fit.encoding.coded(people)
        for name, part, table in (
            ("first", fit.first, coded),
            ("second", fit.second, fit.compression.merged(coded)),
        ):
            true = part.workload.counter(table)(part.answers.candidates)
            variances = np.array(list(map(float, part.answers.variances)))
            squares[name].append((part.answers.values - true) ** 2 / variances)
    for parts in squares.values():
        every = np.concatenate(parts)
        assert len(every) > 20_000
        assert every.mean() == pytest.approx(1, abs=0.045)


@pytest.mark.parametrize("exact", [True, False])
def test_it_learns_what_depends_and_leaves_out_what_is_rare(exact, monkeypatch):
    """A chain of dependent columns, whose marginals are listed: the ends were never measured."""
    pytest.importorskip("jax")
    from stream_dp.batch.people import match_plan, people_synthesizer

    if not exact:
        monkeypatch.setattr(match_plan, "MOST_TREE_CELLS", 0)
    rng, n = np.random.default_rng(4), 4000
    first = np.where(rng.random(n) < 0.98, rng.integers(0, 6, n), rng.integers(6, 400, n))
    second = np.where(rng.random(n) < 0.95, first % 3, rng.integers(0, 3, n))
    third = np.where(rng.random(n) < 0.9, second % 2, rng.integers(0, 2, n))
    people = People(domain(400, 3, 2), np.stack([first, second, third], axis=1))
    listed = wide_release(marginals=(("c0", "c1"), ("c1", "c2")))
    fit = people_synthesizer.fit_match(people, listed, FitContext(SeededNoise(3)))
    assert hasattr(fit.second.model, "tree") == exact
    synthetic = fit.sample(1)
    assert abs(synthetic.N - n) < 200

    def apart(columns):
        true = marginal_counts(people, columns) / n
        return np.abs(marginal_counts(synthetic, columns) / synthetic.N - true).sum() / 2

    assert apart((0,)) < 0.04
    assert apart((0, 1)) < 0.06
    assert apart((1, 2)) < 0.03
    # What nobody measured follows from what was: the ends of the chain.
    assert apart((0, 2)) < 0.06
