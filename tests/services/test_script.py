"""A study in a script: panels and data sets on logs in memory."""

import warnings
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import stream_dp
from stream_dp.batch import kinds
from stream_dp.services.releaser import household_jobs

PERIODS = ["2026-01", "2026-02"]
REPORTS = pa.table({"person": ["a", "b"], "2026-01": ["yes", "no"], "2026-02": ["yes", "yes"]})
GROUPS = pa.table({"group": [1, 2], "region": ["north", "south"]})
MEMBERS = pa.table({"person": ["a", "b", "c"], "group": [1, 1, 2]})


def declared(kind="independent", groups=True):
    releases = [{"name": "now", "kind": "window", "attribute": "work", "width": 1, "rho": 1}]
    study = {
        "study": {
            "name": "homes",
            "unit": "person",
            "neighbours": "replace_in_place",
            "rho": 2,
            "delta": "1/1000000",
            "population": {"size": 3},
            "periods": {"first": PERIODS[0], "every": "month", "count": 2},
        },
        "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
        "releases": releases,
    }
    if groups:
        regions = {"region": {"values": ["north", "south"]}}
        study["groups"] = {"unit": "household", "most": 2, "attributes": regions}
        releases.append(
            {"name": "homes", "kind": kind, "attributes": ["work"], "rho": "1/2", "every": 1}
        )
    return stream_dp.parse_study(study)


def run(study, **tables):
    return stream_dp.run_study(study, REPORTS, attribute="work", simulation_seed=1, **tables)


@pytest.mark.parametrize("kind", ["independent", "mwem"])
def test_panels_and_data_sets_are_published(kind):
    public = run(declared(kind), groups=GROUPS, members=MEMBERS)
    assert public.verify()[-1] == "homes: 2 data sets, each as its certificate says"
    assert public.panel("now").periods == tuple(PERIODS)
    for period in PERIODS:
        households, people = public.data_set("homes", period).tables
        assert households.column_names == ["group", "region", "size"]
        assert households.num_rows == 2
        sizes = np.bincount(people["group"].to_numpy(), minlength=2)
        assert households["size"].to_pylist() == sizes.tolist()
        assert set(people["work"].to_pylist()) <= {"yes", "no"}


def test_everything_that_is_published_is_a_row_of_one_table():
    public = run(declared(), groups=GROUPS, members=MEMBERS)
    table = public.release_table()
    # Data sets are fitted when every period has closed.
    assert table["release"].to_pylist() == ["now", "now", "homes", "homes"]
    assert table["period"].to_pylist() == PERIODS * 2
    assert table["number"].to_pylist() == [1, 2, 1, 2]
    certificates = [release.certificate for release in public.published]
    people = [certificate.people for certificate in certificates[2:]]
    assert table["rows"].to_pylist() == [3, 3, *people]
    assert table["groups"].to_pylist() == [None, None, 2, 2]
    ends = [datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)]
    assert table["time"].to_pylist() == ends * 2
    for name in ("rho", "rho_spent", "epsilon_spent"):
        assert table[name].to_pylist() == [float(getattr(c, name)) for c in certificates]
    assert table["hash"].to_pylist()[-1] == public.head


def test_other_names_of_the_column_that_ties_members_to_groups():
    tables = {
        "groups": GROUPS.rename_columns(["home", "region"]),
        "members": MEMBERS.rename_columns(["person", "home"]),
    }
    public = run(declared(), **tables, group_key="home")
    assert len(public.published) == 4


def test_a_kind_without_its_extra_is_one_line_before_anything_is_drawn(monkeypatch):
    spec = kinds.find_spec
    monkeypatch.setattr(kinds, "find_spec", lambda name: None if name == "jax" else spec(name))
    monkeypatch.setattr(stream_dp.SeededNoise, "draw", None)
    with pytest.raises(stream_dp.UserError) as error:
        run(declared("hpd-fixed"), groups=GROUPS, members=MEMBERS)
    remedy = "in a clone of stream-dp: pip install '.[batch]'"
    assert str(error.value) == f"kind 'hpd-fixed' needs JAX; {remedy}"


@pytest.mark.parametrize("tables", [{}, {"groups": GROUPS}, {"members": MEMBERS}])
def test_a_study_of_groups_needs_both_tables(tables):
    with pytest.raises(stream_dp.UserError, match="give the tables groups and members"):
        run(declared(), **tables)


def test_tables_of_groups_need_a_study_that_declares_them():
    with pytest.raises(stream_dp.UserError, match="the study declares no groups"):
        run(declared(groups=False), groups=GROUPS)


def test_a_fault_in_a_table_names_the_table():
    people = pa.table({"person": ["a", "b", "c"], "group": [1, 1, 3]})
    with pytest.raises(stream_dp.UserError) as error:
        run(declared(), groups=GROUPS, members=people)
    assert error.value.lines == (
        "members: 1 members of no group in groups, the first in row 3 below the header",
        "groups: 1 groups without members, the first in row 2 below the header",
    )


def test_a_fit_that_fails_is_one_line(monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError("what it says may hold values")

    monkeypatch.setattr(household_jobs, "load_synthesizer", lambda kind: fails)
    with pytest.raises(stream_dp.UserError) as error:
        run(declared(), groups=GROUPS, members=MEMBERS)
    for line in error.value.lines:
        assert line.startswith("run_study: job homes")
        assert line.endswith(": failed: ZeroDivisionError")


def test_a_table_with_cells_that_do_not_count_is_run_with_a_warning():
    wrong = REPORTS.set_column(1, "2026-01", pa.array(["maybe", "no"]))
    study = declared(groups=False)
    with pytest.warns(UserWarning, match="run_study:") as told:
        public = stream_dp.run_study(study, wrong, attribute="work", simulation_seed=1)
    assert public.study.name == "homes"
    _, first, _, row = str(told[0].message).splitlines()
    assert first == "reports: 1 of 4 cells would not count; the others count"
    assert row.split() == ["2026-01", "value", "1", "1"]
    with pytest.raises(stream_dp.UserError) as refusal:
        stream_dp.run_study(study, wrong, attribute="work", strict=True, simulation_seed=1)
    assert refusal.value.lines[0] == "reports: 1 of 4 cells would not count; nothing is used"


def test_a_table_of_which_nothing_counts_is_not_run():
    wrong = REPORTS.set_column(1, "2026-01", pa.array(["maybe", "perhaps"]))
    wrong = wrong.set_column(2, "2026-02", pa.array(["", "x"]))
    with pytest.raises(stream_dp.UserError, match="nothing of it is used"):
        stream_dp.run_study(declared(groups=False), wrong, attribute="work", simulation_seed=1)


def test_a_table_that_is_none_of_reports_is_named_as_the_argument():
    with pytest.raises(stream_dp.UserError) as refusal:
        stream_dp.run_study(declared(groups=False), GROUPS, simulation_seed=1)
    assert all(line.startswith("reports: ") for line in refusal.value.lines)


def told_of(study, reports, **tables):
    """The texts of the warnings of a run."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        stream_dp.run_study(study, reports, simulation_seed=1, **tables)
    return [str(warning.message) for warning in told if warning.category is UserWarning]


def test_people_beyond_the_declared_size_are_a_warning():
    people = [f"p{i}" for i in range(8)]
    reports = pa.table({"person": people, "2026-01": ["yes"] * 8, "2026-02": ["no"] * 8})
    (told,) = told_of(declared(groups=False), reports, attribute="work")
    first, reason, *_ = told.splitlines()
    assert first == "run_study: rejected:"
    assert reason.split(":")[0].split() == ["10", "cells", "full"]


def test_notices_of_sending_are_a_warning():
    reports = pa.table(
        {
            "person": ["a", "b", "a"],
            "period": ["2026-01"] * 3,
            "work": ["yes", "yes", "no"],
            "mood": ["good"] * 3,
        }
    )
    (told,) = told_of(declared(groups=False), reports)
    assert told.splitlines() == [
        "run_study:",
        "reports: columns left out: mood",
        "reports: 1 cells repeat an earlier one of the same person and period, the first in row 3"
        " below the header: the last one counts",
    ]


def test_a_sound_table_is_run_without_a_warning():
    assert told_of(declared(groups=False), REPORTS, attribute="work") == []
