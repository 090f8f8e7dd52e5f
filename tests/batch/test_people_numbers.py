"""Numbers of people: bins of the fit, answers of the sample, and the cost over all answers."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from kit.people_costs import brute_force_costs
from kit.studies import attribute, small_study

from stream_dp.batch.people.all_pairs import AllPairs
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_draw import drawn_numbers
from stream_dp.batch.people.people_plan import all_pairs_plan
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.residual_counts import all_residuals
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Numbers, Scale


def study(relation="add_remove", labels=None):
    release = {"name": "p", "kind": "rap", "attributes": ["n", "x", "y"], "rho": 1, "every": 1}
    return small_study(
        neighbours=relation,
        size=None if relation == "add_remove" else 3,
        rho=3,
        attributes={
            "n": {"number": {"least": 0, "most": 8, "step": 2}, "bins": [2, 6], "missing": 0},
            "x": attribute([0, 1], missing=0),
            "y": attribute(["a", "b", "c"], missing="a"),
        },
        releases=[{**release, **({"labels": labels} if labels else {})}],
    )


def test_bins_for_the_fit_and_answers_for_the_table():
    declared = study("replace_one")
    domain = study_people(declared, declared.batches[0])
    assert domain.size == 3
    declared = study()
    domain = study_people(declared, declared.batches[0])
    assert domain.sizes == (3, 2, 3)
    assert domain.columns[0].values == ("0", "2..4", "6..8")
    answers = np.array(list(product(range(5), range(2), range(3))))
    people = People.of_answers(domain, answers)
    assert people.codes[:, 0].tolist() == [(0, 1, 1, 2, 2)[a] for a in answers[:, 0]]
    assert np.array_equal(people.answers, answers)
    for wrong in (5, -1):
        with pytest.raises(ValueError, match="outside its numbers"):
            People.of_answers(domain, np.array([[wrong, 0, 0]]))


@pytest.mark.parametrize("labels", [None, ["y"]])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_in_place"])
def test_the_plan_costs_rho_over_all_answers(relation, labels):
    """By brute force: whatever one person answers, numbers too, in all that is ever measured."""
    declared = study(relation, labels)
    domain = study_people(declared, declared.batches[0])
    residuals = all_residuals(domain, 3, 10**6)
    plan = all_pairs_plan(residuals, declared.batches[0])

    def measured(rows, number):
        return residuals.counter(People.of_answers(domain, np.array(rows)))([number])

    costs, answers = brute_force_costs(
        *(plan, residuals, relation, measured, [(1, 0, 2), (4, 1, 0)], (5, 2, 3)),
        every=7,
        times=100_000,
    )
    assert sum(costs) == 1
    triples = [residuals.sets[i] for i in answers.candidates if len(residuals.sets[i]) == 3]
    assert triples in ([(0, 1, 2)], []) if relation != "add_remove" else triples == [(0, 1, 2)]


def test_a_table_whose_pairs_are_picked_has_numbers():
    declared = study("replace_one")
    release = declared.batches[0].model_copy(update={"rounds": 2, "per_round": 1})
    domain = study_people(declared, release)
    people = People.of_answers(domain, np.array([(0, 1, 2), (4, 1, 0), (3, 0, 0)]))
    sample = fit_people(people, release, FitContext(SeededNoise(1))).sample(2)
    again = People.of_answers(domain, sample.answers)
    assert np.array_equal(again.codes, sample.codes)
    assert set(sample.numbers) == {0}


def all_pairs(residuals, labels=()):
    return AllPairs(residuals, Fraction(1), frozenset(labels), (), PairFilter(residuals))


def test_labels_confine_the_triples():
    declared = small_study(
        neighbours="add_remove",
        size=None,
        rho=3,
        attributes={name: attribute([0, 1], missing=0) for name in "abcd"},
        releases=[{"name": "p", "kind": "rap", "attributes": list("abcd"), "rho": 1, "every": 3}],
    )
    residuals = all_residuals(study_people(declared, declared.batches[0]), 3, 10**6)
    answers = NoisyAnswers.none().joined(residuals, [0], np.array([10**6]), {0: Fraction(1)})
    for labels, triples in (((), 4), ((3,), 3), ((2, 3), 4)):
        everything = all_pairs(residuals, labels)
        last = everything.last_sets(10**6, answers)
        assert len(last) == triples
        assert all(not labels or {*columns} & {*labels} for columns in last)


def test_pairs_that_hold_a_label_are_more_precise_and_measured_again_alone():
    declared = study(labels=["y"])
    residuals = all_residuals(study_people(declared, declared.batches[0]), 3, 10**6)
    labelled_pairs, plain = all_pairs(residuals, {2}), all_pairs(residuals)
    assert labelled_pairs.repeated == [(0, 2), (1, 2)]
    assert plain.repeated == [(0, 1), (0, 2), (1, 2)]
    own = labelled_pairs.phases[1].variances(residuals)
    alike = plain.phases[1].variances(residuals)
    (other, *labelled) = (own[i] / alike[i] for i in own)
    assert {round(float(other / one), 3) for one in labelled} == {16}
    spent = labelled_pairs.phases[1].charged.spent
    assert spent == Fraction(23 + 30, 100)


def test_numbers_are_spread_evenly_over_their_bins():
    numbers = Numbers(Scale(least=0, most=999), (10, 500), absent=True)
    bins = np.repeat([0, 1, 2, 3], [70, 1, 5000, 9])
    order = np.random.default_rng(0).permutation(len(bins))
    codes = drawn_numbers(np.random.default_rng(1), bins[order], numbers)
    again = drawn_numbers(np.random.default_rng(1), bins[order], numbers)
    assert np.array_equal(codes, again)
    assert np.array_equal(np.searchsorted(numbers.starts, codes, side="right") - 1, bins[order])
    assert np.bincount(codes, minlength=1001)[:10].tolist() == [7] * 10
    assert np.bincount(codes, minlength=1001)[500:1000].tolist() == [10] * 500
    assert (codes == 1000).sum() == 9
    inside = codes[bins[order] == 2]
    assert abs(np.corrcoef(np.arange(len(inside)), inside)[0, 1]) < 0.06
