"""Whatever a study declares, it is refused in words, or it runs to its end and can be asked."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.studies import attribute, cumulative, joint, small_study, window

import stream_dp
from stream_dp.errors import UserError
from stream_dp.study import Study

NAMES = ("work", "home")
COLUMNS = ("person", "period", *NAMES, "region", "income")
RHO = {"rho": 0.4}


@st.composite
def attributes(draw: Any) -> dict[str, Any]:
    declared = {}
    for name in NAMES:
        values = draw(st.sampled_from([[0, 1], ["no", "some", "full"], [1, 2, 3, 4]]))
        missing = draw(st.sampled_from(["absent", values[0], {"carry": True, "first": values[-1]}]))
        declared[name] = attribute(values, missing)
    region = attribute(["north", "south"], "absent", fixed=True)
    income = {"number": {"least": -20, "most": 80, "step": 5}, "bins": [0, 5, 40]}
    income["missing"] = draw(st.sampled_from(["absent", 0]))
    return {**declared, "region": region, "income": income}


@st.composite
def releases(draw: Any, declared: dict[str, Any], periods: int, relation: str) -> list[Any]:
    chosen = []
    tables = ["mixture", "rap", "match"]
    kinds = ["window", "cumulative", "joint", *tables, "window of two", "window by region"]
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2))):
        name, of = f"r{number}", draw(st.sampled_from(NAMES))
        event = [declared[of]["values"][-1]]
        width = draw(st.integers(1, min(3, periods)))
        more: dict[str, Any] = draw(st.sampled_from([{}, {}, {"first": "2021-02"}]))
        if relation == "add_remove":
            more["rows"] = draw(st.sampled_from([40, 60]))
        if kind == "window":
            more |= draw(st.sampled_from([{}, {"strategy": "histogram"}, {"padded": True}]))
            chosen.append(window(name, of, width=width, **RHO, **more))
        elif kind == "window of two":
            chosen.append(window(name, list(NAMES), width=1, **RHO, **more))
        elif kind == "window by region":
            bounded = {"strata": "region", "rows": 40}
            chosen.append(window(name, of, width=width, **RHO, **bounded))
        elif kind == "joint":
            chosen.append(joint(name, of, width=width, event=event, **RHO, **more))
        elif kind == "cumulative":
            if relation == "add_remove":
                more["size_share"] = 0.2
            more |= draw(st.sampled_from([{}, {"counter": "tree"}, {"ordered": False}]))
            chosen.append(cumulative(name, of, event, **RHO, **more))
        else:
            columns = [*NAMES, "region", *(["income"] if kind != "mixture" else [])]
            table = {"name": name, "kind": kind, "attributes": columns, "every": periods}
            if kind == "match":
                table |= draw(st.sampled_from([{}, {"composites": {"both": list(NAMES)}}]))
                table |= draw(st.sampled_from([{}, {"threshold": 0}, {"exempt": ["region"]}]))
                table |= draw(st.sampled_from([{}, {"coarser": {"income": [5]}}]))
                table |= draw(st.sampled_from([{}, {"marginals": [["region", "income"]]}]))
            chosen.append({**table, **RHO})
    return chosen


@st.composite
def studies(draw: Any, batches: bool) -> dict[str, Any]:
    """The keywords of `small_study`. batches: whether it may have data sets, which take long."""
    relation = draw(st.sampled_from(["replace_one", "add_remove", "replace_in_place"]))
    periods = draw(st.integers(1, 5))
    declared = draw(attributes())
    chosen = draw(releases(declared, periods, relation))
    if not batches:
        chosen = [
            release for release in chosen if release["kind"] not in ("mixture", "rap", "match")
        ]
    return {
        "neighbours": relation,
        "rho": 1,
        "periods": {"first": "2021-01", "every": "month", "count": periods},
        "size": None if relation == "add_remove" else 30,
        "attributes": declared,
        "releases": chosen or [window("r0", "work", width=1, **RHO)],
    }


@st.composite
def reports(draw: Any, declared: dict[str, Any]) -> pa.Table:
    """Of up to 30 people, some of whom come late, leave, or say nothing of an attribute."""
    count = declared["periods"]["count"]
    people = draw(st.integers(0, 30))
    seed = draw(st.randoms(use_true_random=False))
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for person in range(people):
        first, last = sorted((seed.randint(1, count), seed.randint(1, count)))
        region = seed.choice(["north", "south"])
        for number in range(first, last + 1):
            rows["person"].append(f"p{person}")
            rows["period"].append(f"2021-{number:02d}")
            for name in NAMES:
                values = declared["attributes"][name]["values"]
                rows[name].append(str(seed.choice(values)) if seed.random() < 0.9 else None)
            rows["region"].append(region)
            rows["income"].append(str(seed.choice([-20, 0, 5, 55, 80, 81, 3])))
    return pa.table({name: pa.array(column, pa.string()) for name, column in rows.items()})


def check(declared: dict[str, Any], table: pa.Table) -> None:
    study = None
    with suppress(UserError):
        study = small_study(**declared)
    if study is not None:
        accepted(study, table)


def accepted(study: Study, table: pa.Table) -> None:
    """A study that was accepted runs over any table, verifies and answers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cells that do not count
            public = stream_dp.run_study(study, table, simulation_seed=1)
    except UserError as error:
        if "nothing of it is used" in error.lines[0]:
            return  # no cell of the table counts
        pytest.fail(f"accepted, and then refused: {error.lines}")
    assert public.verify()
    assert max(r.certificate.rho_spent for r in public.published) <= study.rho
    for release in study.batches or ():
        (table,) = public.data_set(release.name).tables
        assert set(table.column_names) == set(release.attributes)
    for release in study.releases:
        panel = public.panel(release.name)
        assert panel.periods[-1] == study.periods.labels[-1]
        for query in public.queries(release.name):
            answer = public.answer(release.name, query, count=True)
            assert math.isfinite(answer.value)
            assert answer.standard_error > 0
            assert answer.interval[0] < answer.value < answer.interval[1]


HOW = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=20, **HOW)
@given(data=st.data())
def test_a_study_of_panels_runs_to_its_end(data: Any) -> None:
    declared = data.draw(studies(batches=False))
    check(declared, data.draw(reports(declared)))


@pytest.mark.slow
@settings(max_examples=400, **HOW)
@given(data=st.data())
def test_any_study_runs_to_its_end(data: Any) -> None:
    declared = data.draw(studies(batches=True))
    check(declared, data.draw(reports(declared)))
