"""The plan: exact sums of every charge, printed and refused before any report is read."""

import json
from fractions import Fraction

import pytest
from kit.studies import attribute, cumulative, small_study, window

from stream_dp.continual.mechanisms import mechanism
from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study import Study


def make(neighbours="replace_one", rho="1/3", **changed):
    replace = neighbours != "add_remove"
    changed = {
        "attributes": {
            "poverty": attribute([0, 1], missing=0),
            "work": attribute(["no", "part", "full"], missing="absent"),
            "many": attribute([0, 1, 2, 3, 4, 5, 6], missing=0),
        },
        "releases": [
            window("w", "poverty", width=3, rho="1/7"),
            window("v", "work", width=1, rho="1/21"),
            cumulative("c", "work", event=["no"], rho="1/11")
            | ({} if replace else {"size_share": "1/9"}),
        ],
        **changed,
    }
    return small_study(
        name="planned",
        unit="household",
        neighbours=neighbours,
        rho=rho,
        periods={"first": "2021-01", "every": "month", "count": 7},
        size=100 if replace else None,
        **changed,
    )


RELATIONS = ["replace_one", "replace_in_place", "add_remove"]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_charges_add_up_exactly_to_what_each_release_declares(neighbours):
    study = make(neighbours)
    plan = plan_study(study)
    for planned, declared in zip(plan.releases, study.releases, strict=True):
        assert len(planned.charges) == 7
        assert sum(planned.charges) == declared.rho
        assert all(isinstance(c, Fraction) and c >= 0 for c in planned.charges)
        assert planned.charges == mechanism(study, declared).charges
    assert plan.total == Fraction(1, 7) + Fraction(1, 21) + Fraction(1, 11)


def test_charges_of_a_period_are_those_that_are_paid():
    plan = plan_study(make())
    by_period = [plan.charges(number) for number in range(1, 8)]
    assert [[c.release for c in charges] for charges in by_period[:3]] == [
        ["v", "c"],
        ["v", "c"],
        ["w", "v", "c"],
    ]
    assert all(c.period == number for number, cs in enumerate(by_period, 1) for c in cs)
    assert all(c.rho > 0 for charges in by_period for c in charges)
    assert sum(c.rho for charges in by_period for c in charges) == plan.total


def test_a_plan_that_just_fits_is_accepted_and_one_above_is_refused():
    study = make()
    exact = plan_study(study).total
    fields = {name: getattr(study, name) for name in Study.model_fields}
    assert plan_study(Study(**{**fields, "rho": exact})).total == exact
    with pytest.raises(UserError, match=r"releases: .* at period 7: would spend"):
        plan_study(Study(**{**fields, "rho": exact - Fraction(1, 10**30)}))


def test_a_file_whose_releases_do_not_fit_is_refused():
    with pytest.raises(UserError, match="their rhos add up to"):
        make(rho="1/4")


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_plan_for_machines(neighbours):
    study = make(neighbours)
    printed = json.loads(json.dumps(plan_study(study).as_dict()))
    assert printed["study_hash"] == study.hash
    assert (printed["unit"], printed["neighbours"]) == ("household", neighbours)
    assert printed["periods"] == list(study.periods.labels)
    total = Fraction(0)
    for released, declared in zip(printed["releases"], study.releases, strict=True):
        charges = [Fraction(x) for x in released["charges"].values()]
        assert list(released["charges"]) == printed["periods"]
        assert sum(charges) == Fraction(released["rho"]) == declared.rho
        assert released["noise_standard_deviation"] > 0
        assert released["error_bound"] > released["noise_standard_deviation"]
        total += sum(charges)
    assert Fraction(printed["rho_planned"]) == total
    assert Fraction(printed["rho_total"]) == Fraction(1, 3)
    assert Fraction(printed["delta"]) == Fraction(1, 10**6)
    assert float(printed["epsilon_planned"]) < float(printed["epsilon_total"])
    assert ("late_entry" in printed["releases"][0]) == (neighbours == "add_remove")
    sized = [r for r in printed["releases"] if "noise_standard_deviation_of_n" in r]
    assert [r["name"] for r in sized] == (["c"] if neighbours == "add_remove" else [])


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_plan_in_words(neighbours):
    plan = plan_study(make(neighbours))
    text = plan.text()
    for word in (
        "study planned: 7 periods, 2021-01 to 2021-07",
        "guarantee: All releases of the study together are rho-zCDP where one household",
        "release w (window)",
        "release c (cumulative)",
        f"total rho: {plan.total} = ",
        "is not planned for",
        "at delta = 1e-06: eps = ",
    ):
        assert word in text
    assert ("invariants: none" in text) == (neighbours == "add_remove")
    assert ("the number of households, declared as 100" in text) == (neighbours != "add_remove")
    for label in plan.study.periods.labels:
        assert text.count(f"    {label} ") == 3


def test_nothing_is_left_unplanned_where_the_releases_take_everything():
    study = make(rho=str(Fraction(1, 7) + Fraction(1, 21) + Fraction(1, 11)))
    assert "is not planned for" not in plan_study(study).text()


@pytest.mark.parametrize(
    ("kind", "rho", "message"),
    [
        ({"kind": "window", "width": 3}, "1e-12", "nothing would be left of the counts"),
        ({"kind": "cumulative", "event": [1]}, "1e-12", "nothing would be left of the counts"),
        (
            {"kind": "window", "width": 7, "attribute": "many", "padded": True},
            "1e-7",
            "rows: nothing would be left",
        ),
    ],
)
def test_noise_whose_draw_could_fail_is_refused_before_any_draw(kind, rho, message):
    """Overflow, or a panel that fits no memory, would let the outcome of a draw decide."""
    raw = {"name": "r", "attribute": "poverty", "rho": rho, **kind}
    with pytest.raises(UserError, match=message):
        plan_study(make(releases=[raw]))


@pytest.mark.parametrize("rho", ["1e-13", "1e7", "1e-320", "1e300"])
def test_budgets_that_mean_nothing_are_refused(rho):
    with pytest.raises(UserError, match=r"study.rho: must lie between 1e-12 and 1e6"):
        make(rho=rho)


def declared(rho, delta):
    """A study that spends all of its rho on one release."""
    release = {"name": "w", "kind": "window", "attribute": "poverty", "width": 1, "rho": rho}
    study = make(rho=rho, releases=[release])
    fields = {n: getattr(study, n) for n in Study.model_fields} | {"delta": delta}
    return plan_study(Study(**fields))


@pytest.mark.parametrize(
    ("rho", "delta", "keys"),
    [
        ("1/2", "1e-6", []),
        ("1.5", "1e-6", []),
        ("2", "1e-6", ["study.rho"]),
        ("1/2", "1/1000", []),
        ("1/2", "0.0011", ["study.delta"]),
        ("100", "1/2", ["study.rho", "study.delta"]),
    ],
)
def test_a_plan_that_promises_little_says_so(rho, delta, keys):
    plan = declared(rho, delta)
    assert [line.split(":")[0] for line in plan.warnings] == keys
    lines = [line for line in plan.text().splitlines() if line.startswith("warning: ")]
    assert lines == [f"warning: {line}" for line in plan.warnings]
    assert json.loads(json.dumps(plan.as_dict()))["warnings"] == list(plan.warnings)
    assert (float(plan.as_dict()["epsilon_total"]) > 10) == ("study.rho" in keys)


def test_a_plan_never_says_that_eps_is_0():
    plan = declared("1e-6", "0.9")
    assert plan.as_dict()["epsilon_planned"] == plan.as_dict()["epsilon_total"] == "0.000001"
    assert "eps = 0.000001; of the whole budget 0.000001" in plan.text()
