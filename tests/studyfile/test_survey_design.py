"""`[study.sampling]` and `[study.weights]`: what is declared, and what is refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit.studies import attribute, study_tables, window

from stream_dp.errors import UserError
from stream_dp.study import Study
from stream_dp.study.section_faults import contradictions
from stream_dp.studyfile import parse_study

ATTRIBUTES = {
    "poor": attribute([0, 1], missing="absent"),
    "region": attribute(["north", "south"], missing="absent", fixed=True),
    "pay": {"number": {"least": 0, "most": 9, "step": 1}, "bins": [5], "missing": "absent"},
}
CELLS = {"by": "region", "totals": {"north": 7, "south": 3}}


def tables(**study: Any) -> dict[str, Any]:
    releases = [window("poor", "poor", width=1, rho=1, strata="region", rows=9)]
    return study_tables(
        neighbours="add_remove",
        delta="1/1000000",
        size=None,
        attributes=ATTRIBUTES,
        releases=releases,
        **study,
    )


def test_the_design_is_part_of_the_public_declaration() -> None:
    plain = parse_study(tables())
    study = parse_study(tables(weights=CELLS, sampling={"fraction": "1/10"}))
    assert study.hash != plain.hash
    again = Study.model_validate(json.loads(study.canonical()))
    assert (again.hash, again.weights, again.sampling) == (
        study.hash,
        study.weights,
        study.sampling,
    )
    assert contradictions(again) == []
    assert "weights" not in json.loads(plain.canonical())
    assert plain.sampling is None


@pytest.mark.parametrize(
    ("design", "factor", "label"),
    [
        ({"fraction": "1/10"}, 0.9, "noise and simple random sampling"),
        ({"design_effect": 1}, 1.0, "noise and simple random sampling"),
        ({"design_effect": "1.8"}, 1.8, "noise and sampling with design effect 1.8"),
        (
            {"fraction": "1/2", "design_effect": 3},
            1.5,
            "noise and sampling with design effect 3",
        ),
    ],
)
def test_a_design_has_a_variance_and_a_name(
    design: dict[str, Any], factor: float, label: str
) -> None:
    sampling = parse_study(tables(sampling=design)).sampling
    assert sampling is not None
    assert (sampling.factor, sampling.label) == (factor, label)


WEIGHTS_REFUSED = (
    "individual design weights are refused: a weight is personal data and has no bound"
)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"sampling": {}}, "study.sampling: declare fraction, design_effect or both"),
        ({"sampling": {"fraction": 1}}, "study.sampling.fraction: must lie between 0 and 1"),
        ({"sampling": {"fraction": 0}}, "study.sampling.fraction: must lie between 0 and 1"),
        ({"sampling": {"design_effect": 0}}, "study.sampling.design_effect: must lie between"),
        ({"sampling": {"size": 5}}, "study.sampling.size: unknown key; known here are fraction"),
        ({"weights": {}}, "study.weights.by: is required"),
        ({"weights": {"by": "region"}}, "study.weights.totals: is required"),
        ({"weights": CELLS | {"by": "land"}}, "study.weights.by: no attribute 'land' is declared"),
        ({"weights": CELLS | {"by": "pay"}}, f"'pay' has no listed values; {WEIGHTS_REFUSED}"),
        (
            {"weights": CELLS | {"totals": {"north": 7}}},
            "study.weights.totals: declare a number for each value of 'region': north, south",
        ),
        (
            {"weights": CELLS | {"sample": {"north": 7, "east": 1}}},
            "study.weights.sample: declare a number for each value of 'region'",
        ),
        (
            {"weights": CELLS | {"sample": {"north": 8, "south": 3}}},
            "study.weights.sample.north: is more than totals.north, the population's",
        ),
        (
            {"weights": {"by": "poor", "totals": {"0": 7, "1": 3}}},
            "study.weights.by: no release has the cells of 'poor'; give a panel strata = 'poor'",
        ),
        ({"weights": CELLS | {"totals": {"north": 0, "south": 1}}}, "must be at least 1"),
        ({"weights": {"column": "weight"}}, f"study.weights.column: {WEIGHTS_REFUSED}"),
        ({"weights": {"attribute": "pay"}}, f"study.weights.attribute: {WEIGHTS_REFUSED}"),
        ({"wave": 1}, "known here are .*, curator, gate, sampling, weights"),
    ],
)
def test_faults_say_what_to_declare(study: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_study(tables(**study))


@pytest.mark.parametrize("key", ["weight", "weights"])
def test_an_attribute_cannot_be_a_weight(key: str) -> None:
    raw = tables()
    raw["attributes"] = ATTRIBUTES | {"pay": {**ATTRIBUTES["pay"], key: True}}
    with pytest.raises(UserError, match=f"attributes.pay.{key}: {WEIGHTS_REFUSED}") as refused:
        parse_study(raw)
    assert all(len(line) < 400 for line in refused.value.lines)
    assert r"declare [study.weights] with by and totals" in str(refused.value)
