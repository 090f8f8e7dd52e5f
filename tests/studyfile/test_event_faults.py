"""`slots` of attributes, and faults of releases of people with their events."""

from __future__ import annotations

from typing import Any

import pytest

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.study import Study
from stream_dp.study.data_set_faults import event_warnings
from stream_dp.studyfile import parse_study


def declared(**changes: Any) -> dict[str, Any]:
    """The sections of a study file; changes: of its release, of `events`, or of sections."""
    events = {"unit": "trip", "columns": ["mode"], "most": 3} | changes.pop("events", {})
    release = {
        **{"name": "trips", "kind": "hpd-events", "attributes": ["age"], "every": 1, "rho": 1},
        "events": events,
    } | changes.pop("release", {})
    mode = {"values": ["walk", "car"], "missing": "absent", "slots": 3} | changes.pop("mode", {})
    head = {"neighbours": "replace_one"} | changes.pop("study", {})
    return {
        "study": {
            **{"name": "diary", "unit": "person", "rho": 1, "delta": "1e-6"},
            **{"population": {"size": 100}, **head},
            "periods": {"first": 1, "every": "step", "count": 1},
        },
        "attributes": {
            "age": {"values": ["young", "old"], "missing": "young"},
            "mode": mode,
            **changes,
        },
        "releases": [release],
    }


def faults(**changes: Any) -> list[str]:
    with pytest.raises(UserError) as refused:
        parse_study(declared(**changes))
    return list(refused.value.lines)


def test_slots_stand_for_an_attribute_each() -> None:
    study = parse_study(declared())
    assert isinstance(study, Study)
    assert list(study.attributes) == ["age", "mode_1", "mode_2", "mode_3"]
    (release,) = study.batches or ()
    assert release.names == ("age", "mode_1", "mode_2", "mode_3")
    by_hand = declared()
    mode = by_hand["attributes"].pop("mode")
    del mode["slots"]
    by_hand["attributes"] |= {f"mode_{number}": mode for number in (1, 2, 3)}
    assert parse_study(by_hand).hash == study.hash


@pytest.mark.parametrize("slots", [0, 65, "3", True, 1.5])
def test_slots_are_a_number(slots: object) -> None:
    assert faults(mode={"slots": slots}) == [
        "attributes.mode.slots: must be a whole number from 1 to 64"
    ]


def test_slots_that_no_release_counts_are_a_warning() -> None:
    assert list(event_warnings(parse_study(declared()))) == []
    (line,) = plan_study(parse_study(declared(events={"most": 2}))).warnings
    assert line.startswith("release 'trips', events.most: 'mode' has more slots than 2")


def test_faults_of_events_are_a_line_each() -> None:
    assert faults(events={"most": 4}) == [
        "releases[1].attributes: no attribute 'mode_4' is declared"
    ]
    assert faults(mode={"missing": "walk"}) == [
        "releases[1].events.columns: declare missing = 'absent' for 'mode': there may be fewer"
    ]
    assert faults(events={"columns": ["mode", "mode"]})[-1:] == [
        "releases[1].events.columns: a column stands there twice"
    ]
    other = {"values": ["walk", "bike"], "missing": "absent"}
    assert faults(mode={"slots": 2}, mode_3=other) == [
        "releases[1].events.columns: the slots of 'mode' differ; declare them by `slots`"
    ]
    twice = {"values": ["walk", "car"], "missing": "absent"}
    assert "attributes.mode_1: stands for a slot too; rename one of both" in faults(mode_1=twice)
    size = {"values": ["a", "b"], "missing": "a"}
    assert faults(release={"attributes": ["size"]}, size=size) == [
        "releases[1]: the name 'size' is reserved"
    ]
    assert "unknown key" in "".join(faults(mode={"slot": 3}))
    assert "slots" in "".join(faults(mode={"slot": 3}))


def test_the_relation_must_have_a_proved_cost() -> None:
    (fault,) = faults(study={"neighbours": "add_remove", "population": {}})
    assert fault.startswith("study.neighbours: what events cost under 'add_remove' is not proved")
    assert "'replace_one' or 'replace_in_place'" in fault
    assert parse_study(declared(study={"neighbours": "replace_in_place"}))


def test_too_many_queries_are_refused() -> None:
    wide = {"values": list(range(200)), "missing": "absent"}
    columns = [f"c{number}" for number in range(8)]
    more = {name: {**wide, "slots": 2} for name in columns}
    events = {"columns": columns, "most": 2}
    assert any("ways" in fault for fault in faults(events=events, release={"ways": 2}, **more))
