"""Places and releases of sizes in study files: what is declared, and every fault in words."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from kit.studies import small_study, window

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.release.certificate import invariants_words
from stream_dp.study import DataSetRelease, SizesRelease, Study
from stream_dp.study.families import Kind
from stream_dp.study.place_releases import geometric_cost
from stream_dp.study.section_faults import contradictions

HOME = {"place": True, "missing": "absent"}
PLACES = {"unit": "block", "regions": ["state", "county"]}
SIZES = {"name": "sizes", "kind": "sizes", "attribute": "home", "largest": 9, "every": 1, "rho": 1}


def declared(**changes: Any) -> Study:
    release = {**SIZES, **changes.pop("release", {})}
    fields: dict[str, Any] = {
        "neighbours": "add_remove",
        "size": None,
        "rho": 3,
        "attributes": {"home": HOME},
        "places": PLACES,
        "releases": [{k: v for k, v in release.items() if v is not None}],
    }
    return small_study(**{**fields, **changes})


def sizes_of(study: Study) -> SizesRelease:
    (release,) = study.batches or ()
    assert isinstance(release, SizesRelease)
    return release


def test_a_declaration_is_read_and_written_without_the_keys_of_places() -> None:
    study = declared()
    assert study.attributes["home"].symbols == ("absent",)
    assert "values" not in json.loads(study.canonical())["attributes"]["home"]
    bound = study.of_places(["7", "a", "b"])
    assert bound.attributes["home"].symbols == (7, "a", "b", "absent")
    assert bound.attributes["home"].codes["7"] == 0
    assert bound.attributes["home"].first_code == 3
    assert (bound.hash, bound.canonical()) == (study.hash, study.canonical())
    again = Study.model_validate(json.loads(study.canonical()))
    assert (again.hash, contradictions(again)) == (study.hash, [])
    assert "how many every region has" in invariants_words(study)


def test_what_the_plan_says_of_each_level() -> None:
    methods = ["cumulative-squares", ["sorted", "naive"], "sorted"]
    study = declared(release={"methods": methods, "parts": [1, 2, 1]})
    (planned,) = summary(plan_study(study)).data_sets
    assert [phase.rho for phase in planned.phases] == [
        Fraction(1, 4),
        Fraction(1, 2),
        Fraction(1, 4),
    ]
    first, second, third = (phase.text for phase in planned.phases)
    # The noise of a level of rho has the variance 1 / (2 rho) for a squared change of 1.
    assert first.startswith("level all: cumulative-squares; standard deviation of an entry 1.41;")
    assert "omniscient error 1.41 for each size that occurs; charged by an upper bound" in first
    assert "level state: sorted or naive, chosen privately" in second
    assert "level county: sorted;" in third
    by_default = declared()
    text = summary(plan_study(by_default)).text(long=True)
    assert "level all: sorted or cumulative-squares, by how many places its regions have" in text


def test_a_kind_declares_what_its_releases_may_declare() -> None:
    kind = Kind.SIZES.data_set
    own = SizesRelease.model_fields.keys() - DataSetRelease.model_fields.keys()
    assert {*kind.settings} <= own
    assert kind.relations == ("add_remove", "replace_one")


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_pure_epsilon_costs_under_its_relation_what_is_proved(relation: str) -> None:
    size = None if relation == "add_remove" else 9
    for declares in ({}, {"methods": ["sorted", "naive", "cumulative"]}):
        release = {"rho": None, "epsilon": ["1/2", 1, "1/2"], **declares}
        study = declared(neighbours=relation, size=size, release=release)
        methods = declares.get("methods", ["sorted"] * 3)
        costs = [
            geometric_cost(method, relation, Fraction(eps))
            for method, eps in zip(methods, ("1/2", 1, "1/2"), strict=True)
        ]
        assert sizes_of(study).rho == sum(costs)
        (planned,) = summary(plan_study(study)).data_sets
        assert [phase.rho for phase in planned.phases] == costs
        again = Study.model_validate(json.loads(study.canonical()))
        assert (again.hash, contradictions(again)) == (study.hash, [])


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "in place": (
        {"neighbours": "replace_in_place", "size": 9},
        "study.neighbours: under 'replace_in_place' the groups and their sizes are no secret",
    ),
    "no places": ({"places": None}, "releases[1]: 'sizes' is about places of people: declare"),
    "values": ({"attributes": {"home": {**HOME, "values": ["a"]}}}, "leave them out"),
    "missing": ({"attributes": {"home": {**HOME, "missing": "a"}}}, "must be 'absent', nowhere"),
    "no place": (
        {"attributes": {"home": {"values": ["a", "b"], "missing": "a"}}},
        "releases[1].attribute: declare attributes.home with place = true",
    ),
    "no attribute": ({"release": {"attribute": None}}, "releases[1].attribute: name the attribute"),
    "other attribute": ({"release": {"attribute": "work"}}, "no attribute 'work' is declared"),
    "methods": ({"release": {"methods": ["sorted"]}}, "methods: give 3, one for each level: all, "),
    "unknown": ({"release": {"methods": ["sorted", "s", "sorted"]}}, "releases[1].methods"),
    "twice": ({"release": {"methods": [["sorted"] * 2] * 3}}, "a level names a method twice"),
    "chosen": (
        {"release": {"rho": None, "epsilon": [1, 1, 1], "methods": [["sorted", "naive"]] * 3}},
        "a choice between several needs rho",
    ),
    "parts": ({"release": {"parts": [1, 1]}}, "parts: give 3"),
    "both": ({"release": {"epsilon": [1, 1, 1]}}, "releases[1].epsilon: give it in place of rho"),
    "tiny": (
        {"release": {"rho": None, "epsilon": ["1/2000", 1, 1]}},
        "epsilon: must be at least 1/1000",
    ),
    "no number": ({"release": {"rho": None, "epsilon": ["x", 1, 1]}}, "releases[1].epsilon"),
    "largest": ({"release": {"largest": 0}}, "releases[1].largest: must be at least 1"),
    "reserved": ({"places": {**PLACES, "regions": ["size"]}}, "the name 'size' is reserved"),
    "unit": ({"places": {**PLACES, "unit": "person"}}, "is what places are called"),
    "counted": (
        {"places": {**PLACES, "counted": True}},
        "releases[1].attribute: with places.counted nobody reports",
    ),
    "months": (
        {"places": {**PLACES, "counted": True}, "release": {"attribute": None}},
        "study.periods.count: must be 1 with places.counted",
    ),
    "a panel": (
        {"releases": [SIZES, window("now", "home", width=1, rho=1)]},
        "releases[2]: 'home' is a place, which kind 'sizes' alone releases",
    ),
    "unused": (
        {
            "releases": [window("now", "work", 1, 1)],
            "attributes": {"work": {"values": [0, 1], "missing": 0}},
        },
        "places: no release uses it",
    ),
    "no values": (
        {"attributes": {"home": {"missing": "absent"}}},
        "attributes.home.values: is required",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_a_line(case: str) -> None:
    changes, words = FAULTS[case]
    with pytest.raises(UserError) as error:
        declared(**changes)
    assert any(words in line for line in error.value.lines), error.value.lines


def test_a_study_of_a_table_of_counts_needs_no_attributes() -> None:
    study = declared(
        attributes={},
        periods={"first": "2021", "every": "year", "count": 1},
        places={**PLACES, "counted": True},
        release={"attribute": None},
    )
    assert study.attributes == {}
    assert sizes_of(study).questions == ()
