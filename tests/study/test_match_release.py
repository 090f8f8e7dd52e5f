"""Two-phase tables of people in study files: what is declared, and a line for each mistake."""

from fractions import Fraction

import pytest
from kit.studies import attribute, small_study

from stream_dp.errors import UserError
from stream_dp.study import MatchRelease, Study

INCOME = {"number": {"least": 0, "most": 900, "step": 100}, "bins": [100, 300, 600], "missing": 0}
MANY = attribute([f"v{i}" for i in range(200)], "absent")
ATTRIBUTES = {
    **{"sex": attribute(["f", "m"], "f"), "age": attribute([1, 2, 3], "absent")},
    **{"income": INCOME, "city": MANY, "job": MANY},
}
DECLARED = {
    "composites": {"who": ["sex", "age"]},
    "coarser": {"income": [300]},
    "exempt": ["who"],
    "marginals": [["who", "income"], ["income", "city"]],
}


def study(**release):
    columns = ["sex", "age", "income", "city"]
    base = {"name": "people", "kind": "match", "attributes": columns, "rho": 1, "every": 1}
    return small_study(attributes=ATTRIBUTES, rho=3, releases=[{**base, **release}])


def test_the_columns_that_are_measured():
    declared = study(**DECLARED)
    (release,) = declared.batches
    assert isinstance(release, MatchRelease)
    assert release.columns == {"who": ("sex", "age"), "income": ("income",), "city": ("city",)}
    assert (release.one_ways, release.threshold) == (Fraction(1, 4), 3)
    again = Study.model_validate_json(declared.canonical())
    assert again.hash == declared.hash
    assert again.batches == declared.batches
    marginals = [{"of": ["income"], "weight": 2}, {"of": ["who", "city"]}]
    (release,) = study(**{**DECLARED, "marginals": marginals}).batches
    assert [(m.of, m.weight) for m in release.listed_marginals] == [
        (("income",), 2),
        (("who", "city"), 1),
    ]
    assert Study.model_validate_json(study(**DECLARED, one_ways="1/3").canonical())


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ({"threshold": -1}, "threshold: must lie between 0 and 100"),
        ({"threshold": "three"}, "threshold: write a number"),
        ({"one_ways": 1}, "one_ways: must lie between 0 and 1, and be neither"),
        ({"treshold": 2}, "treshold: unknown key; known here are name, kind"),
        ({"labels": ["sex"]}, "labels: 'match' has none"),
        ({"exempt": ["hair"]}, "exempt: 'hair' is none of the release's attributes or composites"),
        ({"exempt": ["sex", "sex"]}, "exempt: a column stands there twice"),
        ({"exempt": ["sex"], **{"composites": {"x": ["sex", "age"]}}}, "exempt: 'sex' is measured"),
        ({"composites": {"x": ["sex", "hair"]}}, "composites.x: 'hair' is none of the release's"),
        ({"composites": {"x": ["sex", "sex"]}}, "composites.x: 'sex' stands in composites twice"),
        ({"composites": {"city": ["sex", "age"]}}, "composites.city: 'city' is a column of the"),
        ({"composites": {"x": ["sex", "age"], "y": ["age", "city"]}}, "composites.x: 'age' stands"),
        ({"composites": {"x": ["sex"]}}, "composites.x: must have at least 2 of them"),
        ({"composites": {"x": ["city", "job"]}, "attributes": ["city", "job", "sex"]}, ""),
        ({"composites": {"x": ["sex", "age"]}, "attributes": ["sex", "age"]}, "composites: leave"),
        ({"coarser": {"age": [2]}}, "coarser.age: 'age' has listed values; only numbers have bins"),
        ({"coarser": {"hair": [2]}}, "coarser.hair: 'hair' is none of the release's attributes"),
        ({"coarser": {"income": [200]}}, "coarser.income: 200 is no edge of the number's own bins"),
        ({"coarser": {"income": [600, 100]}}, "coarser.income: edges must increase"),
        ({"coarser": {"income": []}}, "coarser.income"),
        ({"coarser": {"income": ["a"]}}, "coarser.income.0: must be a whole number"),
        ({"marginals": []}, "marginals"),
        ({"marginals": ["sex"]}, "marginals.0: must be a list"),
        ({"marginals": [["sex", "hair"]]}, "marginals.0: 'hair' is none of the release's"),
        ({"marginals": [["sex", "sex"]]}, "marginals.0: a column stands there twice"),
        ({"marginals": [["sex", "age"], ["age", "sex"]]}, "marginals.1: age, sex stand there"),
        ({"marginals": [["sex", "age", "city", "income"]]}, "marginals.0"),
        ({"marginals": [{"of": ["sex"], "weight": 0}]}, "marginals.0.weight: must lie between 0.0"),
        (
            {"marginals": [{"of": ["sex"], "wait": 1}]},
            "marginals.0.wait: unknown key; known here are of, weight",
        ),
        ({"marginals": [{"weight": 1}]}, "marginals.0.of: is required"),
        ({"kind": "mixture", "threshold": 2}, "threshold: unknown key"),
    ],
)
def test_a_mistake_is_one_line(release, line):
    if not line:
        with pytest.raises(UserError, match="has 40,401 values; at most 32,768"):
            study(**release)
        return
    with pytest.raises(UserError) as raised:
        study(**release)
    said = raised.value.lines[0]
    others = [text for text in raised.value.lines[1:] if "which only kinds" not in text]
    assert not others, others
    assert said.startswith(f"releases[1].{line}"), said
    assert "tuple" not in said
    assert "Input should" not in said
