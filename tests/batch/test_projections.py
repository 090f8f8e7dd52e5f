"""Sums of numbers: exact cells, public weights and thresholds, and the cost of measuring them."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.people_costs import brute_force_costs
from kit.studies import attribute, small_study

from stream_dp.batch.kinds import planned_phases
from stream_dp.batch.people.people_plan import all_pairs_plan
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.projections import (
    Projection,
    declared_projections,
    linear_residuals,
    widened,
)
from stream_dp.errors import UserError

ATTRIBUTES = {
    "n": {"number": {"least": -2, "most": 2, "step": 2}, "bins": [0], "missing": "absent"},
    "m": {"number": {"least": 10, "most": 12}, "bins": [12], "missing": 10},
    "y": attribute(["a", "b"], missing="a"),
}
LINEAR = [{"weights": {"n": 3, "m": -1}, "thresholds": [-11, -5]}, {"random": 1, "seed": 5}]


def declared(relation="add_remove", linear=LINEAR, labels=("y",), attributes=ATTRIBUTES):
    study = small_study(
        neighbours=relation,
        size=None if relation == "add_remove" else 3,
        rho=3,
        attributes=attributes,
        releases=[
            {
                **{"name": "p", "kind": "rap", "attributes": list(attributes), "rho": 1},
                **{"every": 1, "linear": linear, **({"labels": list(labels)} if labels else {})},
            }
        ],
    )
    (release,) = study.batches
    return study, release, study_people(study, release)


def test_cells_are_exact():
    """3 n - m, n in -2, 0, 2 or absent, m in 10, 11, 12: by hand."""
    _, release, domain = declared()
    projection = declared_projections(domain, release)[0]
    assert projection == Projection(((0, 3), (1, -1)), (-11, -5))
    column = projection.column(domain)
    assert (column.name, column.values) == ("3*n-1*m", ("..-11", "-10..-5", "-4..", "absent"))
    answers = np.array(list(product(range(4), range(3), range(2))))
    people = People.of_answers(domain, answers)
    cells = projection.cells(domain, people.numbers)
    for (n, m, _), cell in zip(answers.tolist(), cells.tolist(), strict=True):
        value = 3 * (-2 + 2 * n) - (10 + m)
        assert cell == (3 if n == 3 else sum(value > t for t in (-11, -5)))


@given(
    st.lists(st.integers(0, (1 << 20) - 1), min_size=1, max_size=9),
    st.integers(1, 1 << 32),
    st.integers(-(1 << 52), 1 << 52),
)
def test_large_sums_are_exact(codes, weight, threshold):
    scale = {"number": {"least": 0, "most": (1 << 20) - 1}, "bins": [9], "missing": 0}
    _, _, domain = declared(
        attributes={"n": scale, "m": scale, "y": ATTRIBUTES["y"]}, linear=LINEAR
    )
    projection = Projection(((0, weight), (1, -weight)), (threshold,))
    numbers = {0: np.array(codes), 1: np.array(codes[::-1])}
    cells = projection.cells(domain, numbers).tolist()
    pairs = zip(codes, codes[::-1], strict=True)
    assert cells == [int(weight * (a - b) > threshold) for a, b in pairs]


def test_random_weights_and_thresholds_never_change():
    """They are part of what a job under way measures: the same in every version."""
    _, release, domain = declared()
    own = declared_projections(domain, release)[1]
    assert own == declared_projections(domain, release)[1]
    assert own.weights == FROZEN_WEIGHTS
    assert own.thresholds == FROZEN_THRESHOLDS
    other = declared(linear=[{"random": 1, "seed": 6}])
    assert declared_projections(other[2], other[1])[0].weights != own.weights


FROZEN_WEIGHTS = ((0, -1502), (1, -1454))
FROZEN_THRESHOLDS = (-20452, -18998, -17544, -17448, -15994, -14540, -14444, -12990)


def test_random_weights_are_about_normal_in_units_of_each_spread():
    wide = {"number": {"least": 0, "most": 90000, "step": 100}, "bins": [30000], "missing": 0}
    narrow = {"number": {"least": 0, "most": 90}, "bins": [30], "missing": 0}
    columns = {"w": wide, "n": narrow, "y": ATTRIBUTES["y"]}
    _, release, domain = declared(attributes=columns, linear=[{"random": 60}])
    weights = np.array([[w for _, w in p.weights] for p in declared_projections(domain, release)])
    each = weights.std(axis=0) / (1, 1000)
    assert each == pytest.approx([1000, 1000], rel=0.35)
    assert np.abs(weights.mean(axis=0) / (1, 1000)).max() < 500
    assert all(len(p.thresholds) == 15 for p in declared_projections(domain, release))


def test_scales_that_differ_too_much_are_refused():
    wide = {
        "number": {"least": 0, "most": 2**53 - 2**33, "step": 2**33},
        "bins": [2**34],
        "missing": 0,
    }
    attributes = {"w": wide, "m": ATTRIBUTES["m"], "y": ATTRIBUTES["y"]}
    study, release, _ = declared(attributes=attributes, linear=[{"random": 1}])
    with pytest.raises(UserError, match="scales differ too much; declare weights"):
        planned_phases(study, release)


@pytest.mark.parametrize("labels", [("y",), None])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_in_place"])
def test_the_plan_costs_rho_over_all_answers(relation, labels):
    """By brute force: whatever one person answers, in all that is ever measured."""
    _, release, domain = declared(relation, labels=labels)
    projections, residuals = (
        declared_projections(domain, release),
        linear_residuals(domain, release),
    )
    sums = {a for a in residuals.sets if any(c > 2 for c in a)}
    assert sums == {(3,), (4,)} | ({(2, 3), (2, 4)} if labels else set())
    plan = all_pairs_plan(residuals, release)

    def measured(rows, number):
        people = People.of_answers(domain, np.array(rows))
        return residuals.counter(widened(residuals.domain, people, projections))([number])

    costs, _ = brute_force_costs(
        *(plan, residuals, relation, measured, [(1, 0, 0), (3, 1, 1)], (4, 3, 2)),
        every=5,
        times=10_000,
    )
    if relation == "add_remove":
        assert sum(costs) == 1
    else:
        assert Fraction(9, 10) < sum(costs) <= 1


def whole_number(most, bins):
    return {"number": {"least": 0, "most": most}, "bins": bins, "missing": 0}


# Columns, sums, and what the worst pair of people costs where every pattern of agreement counts.
DEPENDENT = [
    (
        {"n": whole_number(5, [1, 2, 3, 4, 5]), "y": attribute([0, 1, 2], missing=0)},
        [{"random": 2, "seed": 5}],
        0.876,
    ),
    (
        {"n": whole_number(2, [2]), "m": whole_number(5, [1, 2, 3])},
        [
            {"weights": {"n": -1, "m": 1}, "thresholds": [0, 1]},
            {"weights": {"n": 1, "m": -1}, "thresholds": [1]},
            {"weights": {"n": 2, "m": 2}, "thresholds": [1]},
        ],
        0.950,
    ),
]


@pytest.mark.parametrize(("attributes", "linear", "independent"), DEPENDENT)
def test_sums_of_few_numbers_cost_the_worst_possible_pair_rho(attributes, linear, independent):
    """Two people who agree in all numbers agree in all sums: the noise is that much smaller."""
    _, release, domain = declared("replace_one", linear, None, attributes)
    projections = declared_projections(domain, release)
    residuals = linear_residuals(domain, release)
    answers = tuple(
        len(domain.numbers.get(i, column.values)) for i, column in enumerate(domain.columns)
    )
    sums = []
    for of_pairs in (residuals, replace(residuals, dependent=None)):
        plan = all_pairs_plan(of_pairs, release)

        def measured(rows, number, of_pairs=of_pairs):
            people = People.of_answers(domain, np.array(rows))
            return of_pairs.counter(widened(of_pairs.domain, people, projections))([number])

        costs, _ = brute_force_costs(
            *(plan, of_pairs, "replace_one", measured, [(1, 0), (0, 1)], answers),
            every=1,
            times=10_000,
        )
        sums.append(sum(costs))
    assert sums[0] == 1
    assert sums[1] == pytest.approx(independent, abs=1e-3)


def test_alike_columns_beside_sums_are_counted_and_not_listed():
    """Each of 24 columns agrees or not; which of them do makes no difference."""
    alike = {f"c{i}": attribute([0, 1], missing=0) for i in range(24)}
    numbers = {"n": whole_number(5, [2]), "m": whole_number(5, [3])}
    study, release, _ = declared(
        "replace_one", [{"weights": {"n": 1, "m": -1}, "thresholds": [0]}], None, numbers | alike
    )
    assert {phase.charge for phase in planned_phases(study, release)} == {"exact maximum"}


@pytest.mark.parametrize(("most", "charge"), [(60, "exact maximum"), (5000, "upper bound")])
def test_the_charge_of_sums_of_many_numbers_is_an_upper_bound(most, charge):
    attributes = {"n": whole_number(most, [9]), "m": whole_number(most, [9])}
    study, release, _ = declared("replace_one", [{"random": 1}], None, attributes)
    assert {phase.charge for phase in planned_phases(study, release)} == {charge}


def test_check_says_what_is_measured_of_sums():
    study, release, _ = declared()
    texts = [phase.text for phase in planned_phases(study, release)]
    assert texts[1].startswith("single columns, sums of numbers among them: 5 candidates, ")
    assert texts[2].startswith("pairs of columns, sums of numbers among them: 5 candidates, ")
