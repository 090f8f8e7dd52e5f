"""Strata and waves: what one declaration stands for, and every fault with its place in the file."""

import json
from fractions import Fraction

import pytest
from kit.studies import study_tables

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

ABSENT = {"missing": "absent"}


def raw(*releases, neighbours="replace_one", rho=1, count=12):
    return study_tables(
        name="layers",
        neighbours=neighbours,
        rho=rho,
        delta="1/1000000",
        periods={"first": "2026-01", "every": "month", "count": count},
        size=None if neighbours == "add_remove" else 50,
        attributes={
            "poverty": {"values": [0, 1], **ABSENT},
            "job": {"values": ["yes", "no"], "missing": "no"},
            "region": {"values": ["north", "south"], "fixed": True, **ABSENT},
            "wave": {"values": [1, 2, 3], "fixed": True, **ABSENT},
        },
        releases=releases,
    )


WINDOW = {"name": "w", "kind": "window", "attribute": "poverty", "width": 2, "rho": "1/10"}
TOTAL = {"name": "c", "kind": "cumulative", "attribute": "poverty", "event": [1], "rho": "1/10"}
JOINT = {**WINDOW, "name": "j", "kind": "joint", "event": [1]}
LAYER = {**WINDOW, "rows": 30}
WAVES = {"by": "wave", "every": 3, "length": 6}


def study(*releases, **how):
    return parse_study(raw(*releases, **how))


def lines(*releases, **how):
    with pytest.raises(UserError) as refused:
        study(*releases, **how)
    return list(refused.value.lines)


def test_strata_are_a_release_of_each_value():
    short = study({**LAYER, "strata": "region"})
    written = [
        {**LAYER, "name": f"w-{value}", "where": {"region": value}} for value in ("north", "south")
    ]
    assert short.canonical() == study(*written).canonical()
    assert short.strata == {"w-north": ("region", "north"), "w-south": ("region", "south")}


def test_waves_are_a_release_of_each_value_with_periods_of_its_own():
    short = study({**TOTAL, "rows": 30, "waves": WAVES})
    months = [("2026-01", "2026-06"), ("2026-04", "2026-09"), ("2026-07", "2026-12")]
    written = [
        {**TOTAL, "rows": 30, "name": f"c-{i}", "where": {"wave": i}, "first": a, "last": b}
        for i, (a, b) in enumerate(months, 1)
    ]
    assert short.canonical() == study(*written).canonical()
    assert [short.span(r) for r in short.releases] == [(1, 6), (4, 9), (7, 12)]
    second = short.releases[1]
    assert [short.time(second, n) for n in (3, 4, 9, 10)] == [None, 1, 6, None]


def test_the_published_declaration_of_strata_gives_the_same_study():
    declared = study({**LAYER, "strata": "region"}, {**JOINT, "rows": 9, "waves": WAVES})
    again = Study.model_validate(json.loads(declared.canonical()))
    assert again == declared
    assert again.hash == declared.hash


def test_fixed_false_is_not_said_at_all():
    table = raw(WINDOW)
    expected = parse_study(table).hash
    table["attributes"]["job"]["fixed"] = False
    assert parse_study(table).hash == expected
    table["attributes"]["job"]["fixed"] = "yes"
    with pytest.raises(UserError, match=r"attributes.job.fixed: must be true or false"):
        parse_study(table)


@pytest.mark.parametrize("neighbours", ["replace_one", "replace_in_place", "add_remove"])
def test_strata_cost_the_largest_and_the_rest_adds_up(neighbours):
    layers = {**LAYER, "strata": "region"}, {**TOTAL, "rows": 30, "waves": WAVES}
    total = Fraction(3, 10)
    plan = plan_study(study(WINDOW, *layers, neighbours=neighbours, rho=total))
    assert plan.total == total
    assert len(lines(WINDOW, *layers, neighbours=neighbours, rho=total - Fraction(1, 100))) == 1
    for planned in plan.releases:
        first, last = plan.study.span(planned.release)
        inside = planned.charges[first - 1 : last]
        assert sum(inside) == sum(planned.charges) == Fraction(1, 10)


@pytest.mark.parametrize(
    ("release", "fault"),
    [
        (
            {"strata": "regoin"},
            ".strata: no attribute 'regoin' is declared; fixed are region, wave",
        ),
        ({"strata": "job"}, ".strata: declare attributes.job with fixed = true: a person keeps a"),
        ({"strata": ["region"]}, ".strata: must be the name of one attribute, such as 'region'"),
        ({"strata": 1}, ".strata: must be the name of one attribute, such as 'region'"),
        ({"strata": "region", "where": {"wave": 1}}, ": declare one of where, strata"),
        ({"strata": "region", "waves": WAVES}, ": declare one of strata, waves"),
        ({"strata": "region", "name": None}, ".name: is required"),
        ({"strata": "region", "width": 0}, ".width: must be at least 1"),
        ({"strata": "region", "widht": 3}, ".widht: unknown key; known here are name, "),
        ({"strata": "region", "rows": None}, ".rows: is required: the size of a stratum is priva"),
        ({"strata": "region", "rows": "many"}, ".rows: must be a whole number"),
        ({"strata": "region", "padded": True}, ".padded: with rows declared nothing is padded"),
        ({"strata": "region", "attribute": "region"}, ".attribute: 'region' is the same for all"),
        ({"waves": "wave"}, ".waves: must be a table"),
        ({"waves": {"by": "wave", "every": 3}}, ".waves.length: is required"),
        ({"waves": WAVES | {"length": 0}}, ".waves.length: must be at least 1"),
        ({"waves": WAVES | {"by": "job"}}, ".waves.by: declare attributes.job with fixed = true"),
        ({"waves": WAVES | {"by": 7}}, ".waves.by: must be text"),
        ({"waves": WAVES | {"start": 2}}, ".waves.start: unknown key; known here are by, every"),
        ({"waves": WAVES, "first": "2026-02"}, ".waves: each wave gets first and last of its own"),
        (
            {"waves": WAVES | {"length": 8}},
            ".waves: the last of 3 waves would end 2 periods after the study: raise"
            " study.periods.count to 14",
        ),
        ({"waves": WAVES | {"length": 7}}, ".waves: the last of 3 waves would end 1 period after"),
        ({"waves": WAVES, "width": 7}, ".width: 7 periods is over the horizon of 6"),
        ({"where": "region=north"}, ".where: must be one attribute and its value, such as"),
        ({"where": {}}, ".where: must be one attribute and its value, such as"),
        ({"where": {"region": "north", "wave": 1}}, ".where: must be one attribute and its value"),
        ({"where": {"region": 1.5}}, ".where: must be one attribute and its value, such as"),
        ({"where": {"region": "east"}}, ".where: 'east' is no value of region; it has north, sou"),
        ({"where": {"job": "yes"}}, ".where: declare attributes.job with fixed = true: a person"),
        ({"where": {"county": "x"}}, ".where: no attribute 'county' is declared"),
        ({"first": "2025-12"}, ".first: '2025-12' is none of the study's periods 2026-01 to 2026"),
        ({"last": "2027-01"}, ".last: '2027-01' is none of the study's periods"),
        ({"first": 3}, ".first: must be text"),
        ({"first": "2026-05", "last": "2026-04"}, ".last: '2026-04' comes before '2026-05'"),
        ({"first": "2026-12"}, ".width: 2 periods is over the horizon of 1"),
        ({"attribute": []}, ".attribute: must be a name, or a list of 2 to 8 names"),
        ({"attribute": ["job"]}, ".attribute: must be a name, or a list of 2 to 8 names"),
        ({"attribute": 3}, ".attribute: must be a name, or a list of 2 to 8 names"),
        ({"attribute": ["job", "jobs"]}, ".attribute: no attribute 'jobs' is declared"),
        ({"attribute": ["job", "job"]}, ".attribute: an attribute stands there twice"),
        ({"attribute": ["job", "poverty", "wave"], "width": 5}, ".width: 7962624 patterns to"),
    ],
)
def test_faults_are_one_line_with_the_number_in_the_file(release, fault):
    """In the second place of the file, after one that stands for several."""
    start = {} if release.keys() <= {"attribute", "width", "first", "last"} else {"rows": 30}
    table = {k: v for k, v in {**WINDOW, **start, **release}.items() if v is not None}
    faults = lines({**LAYER, "name": "before", "strata": "region"}, table)
    assert len(faults) == 1, faults
    assert faults[0].startswith(f"releases[2]{fault}")


def test_the_numbers_of_rows_and_of_people():
    here = {**WINDOW, "attribute": "job"}
    (line,) = lines({**WINDOW, "rows": 9})
    assert line == "releases[1]: rows and size_share are for add_remove; here n is public"
    (line,) = lines({**here, "rows": 9}, neighbours="add_remove")
    assert line.startswith("releases[1].rows: a bound goes with people who come and go")
    (line,) = lines({**WINDOW, "rows": 9, "padded": True}, neighbours="add_remove")
    assert line == "releases[1].padded: with rows declared nothing is padded; leave it out"
    (line,) = lines(JOINT, neighbours="add_remove")
    assert line == "releases[1].rows: is required with 'absent': declare a bound on the people"
    (line,) = lines(TOTAL, neighbours="add_remove")
    assert line.startswith("releases[1]: under add_remove n is private: declare rows = N")
    for sound in (
        {**WINDOW, "rows": 9},
        here,
        {**JOINT, "rows": 9},
        {**TOTAL, "rows": 9},
        {**TOTAL, "rows": 9, "size_share": "1/9"},
        {**TOTAL, "size_share": "1/9"},
        {**LAYER, "attribute": "job", "where": {"wave": 2}},
    ):
        study(sound, neighbours="add_remove")


def test_events_of_products():
    pair = {**TOTAL, "attribute": ["poverty", "job"]}
    declared = study({**pair, "event": ["poverty=1&job=no", "poverty=0"]})
    assert declared.event_codes(declared.releases[0]) == (0, 1, 3)
    assert declared.alphabet(declared.releases[0]).absent is None
    for event in (1, "poverty=2", "poverty = 1", "poverty"):
        (line,) = lines({**pair, "event": [event]})
        assert line == (
            f"releases[1].event: {event!r} is no value of poverty&job; write"
            " 'poverty=0&job=yes', or a part such as 'poverty=0', with its own values"
        )
    (line,) = lines({**TOTAL, "event": [7]})
    assert line == "releases[1].event: 7 is no value of poverty; it has 0, 1"
    (line,) = lines({**pair, "rows": 9, "where": {"wave": 1}, "event": ["absent"]})
    assert line == "releases[1].event: 'absent' cannot be the event"


def test_products_are_counted_before_they_are_formed():
    """Eight attributes of 100 values have 10^16 together."""
    table = raw({**WINDOW, "attribute": [f"a{i}" for i in range(8)], "width": 1})
    table["attributes"] = {f"a{i}": {"values": list(range(100)), **ABSENT} for i in range(8)}
    with pytest.raises(UserError) as refused:
        parse_study(table)
    (line,) = refused.value.lines
    assert line == f"releases[1].attribute: {101**8} values together; at most 250"


def test_an_attribute_with_a_fault_is_reported_once():
    table = raw({**LAYER, "strata": "wave"}, {**LAYER, "name": "v", "where": {"wave": 1}})
    del table["attributes"]["wave"]["missing"]
    with pytest.raises(UserError) as refused:
        parse_study(table)
    assert list(refused.value.lines) == ["attributes.wave.missing: is required"]


def test_names_that_strata_cannot_have():
    table = raw({**LAYER, "strata": "region"}, {**LAYER, "name": "w-north"})
    table["attributes"]["region"]["values"] = ["the north", "south"]
    with pytest.raises(UserError, match=r"releases\[1\].strata: 'w-the north' cannot be a rel"):
        parse_study(table)
    twice = {**LAYER, "strata": "region"}, {**WINDOW, "name": "w-north"}
    assert lines(*twice) == ["releases[2].name: 'w-north' stands there twice"]
