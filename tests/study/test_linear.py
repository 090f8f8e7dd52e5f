"""Linear thresholds in study files: what is declared, and a line for each mistake."""

import tomllib
from decimal import Decimal

import pytest
from kit.studies import attribute, small_study, study_toml

from stream_dp.errors import UserError
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

NUMBER = {"number": {"least": 0, "most": 900, "step": 100}, "bins": [100, 300], "missing": "absent"}
ATTRIBUTES = {"sex": attribute(["f", "m"], "f"), "income": NUMBER, "rent": NUMBER}
BASE = {"name": "people", "kind": "rap", "attributes": list(ATTRIBUTES), "rho": 1, "every": 1}


def study(*linear, **release):
    declared = {**BASE, "linear": list(linear), **release}
    return small_study(attributes=ATTRIBUTES, rho=3, releases=[declared])


def test_sums_are_part_of_the_declaration():
    declared = study({"weights": {"income": 1, "rent": -12}, "thresholds": [0, 100]}, {"random": 3})
    (release,) = declared.batches
    assert [one.projections for one in release.linear] == [1, 3]
    again = Study.model_validate_json(declared.canonical())
    assert (again.hash, again.batches) == (declared.hash, declared.batches)


def test_a_sum_may_hold_a_number_as_it_was():
    columns = {"income": 1, "income_1_ago": -1}
    text = study_toml(
        attributes=ATTRIBUTES,
        rho=3,
        releases=[{**BASE, "every": 2, "attributes": ["PAST"], "linear": [{"weights": columns}]}],
    ).replace('"PAST"', '"sex", { of = "income", last = 2 }')
    (release,) = parse_study(tomllib.loads(text, parse_float=Decimal)).batches
    assert release.linear[0].weights == columns


@pytest.mark.parametrize(
    ("one", "release", "line"),
    [
        ({}, {}, "linear.0: declare weights = { NUMBER = WEIGHT }, or random = N: one of both"),
        ({"weights": {"income": 1}, "random": 2}, {}, "linear.0: declare weights"),
        ({"random": 0}, {}, "linear.0.random: must be at least 1"),
        ({"random": 65}, {}, "linear.0.random: must be at most 64"),
        ({"random": 2, "thresholds": [1]}, {}, "linear.0.thresholds: go with weights"),
        ({"weights": {"income": 1}, "seed": 1}, {}, "linear.0.seed: goes with random"),
        ({"weights": {"hair": 1}}, {}, "linear.0.weights: 'hair' is none of the release's"),
        ({"weights": {"sex": 1}}, {}, "linear.0.weights: 'sex' is no number"),
        ({"weights": {"income": 0}}, {}, "linear.0.weights: 'income' has the weight 0"),
        ({"weights": {"income": 2**52}}, {}, "linear.0.weights: the sum may be over 9,007,1"),
        ({"weights": {"rent": 1}, "thresholds": [2, 2]}, {}, "linear.0.thresholds: must increase"),
        ({"weights": {"rent": 1}, "thresholds": [900]}, {}, "must lie from 0 to below 900"),
        ({"weights": {"rent": 1}, "thresholds": [-1]}, {}, "must lie from 0 to below 900"),
        ({"random": 1}, {"kind": "mixture"}, ".linear: 'mixture' has none; leave it out"),
        ({"random": 1}, {"kind": "match"}, ".linear: 'match' has none; leave it out"),
        ({"sums": 1}, {}, "unknown key"),
    ],
)
def test_a_mistake_is_one_line(one, release, line):
    with pytest.raises(UserError) as error:
        study(one, **release)
    assert line in str(error.value)


def test_too_many_sums_and_no_number():
    with pytest.raises(UserError, match="over 64 sums of numbers together"):
        study({"random": 60}, {"random": 5})
    values = {"sex": ATTRIBUTES["sex"], "age": attribute([1, 2], 1)}
    releases = [
        {
            **{"name": "p", "kind": "rap", "attributes": ["sex", "age"], "rho": 1, "every": 1},
            "linear": [{"random": 1}],
        }
    ]
    with pytest.raises(UserError, match="none of the release's attributes is a number"):
        small_study(attributes=values, rho=3, releases=releases)
