"""Plans of every kind of release with very small and very large budgets."""

import json

import pyarrow as pa
import pytest
from kit.kinds_of_releases import study_of

import stream_dp
from stream_dp.errors import UserError
from stream_dp.planning.study_summary import summary
from stream_dp.study.families import RELATIONS, Family, Kind

PANELS = (Family.WINDOW, Family.CUMULATIVE, Family.JOINT)


def studies(kind, rho):
    """The declaration of a kind's study with this rho, under each of its relations."""
    synthesizer = kind.data_set
    for relation in RELATIONS if synthesizer is None else synthesizer.relations:
        tables = study_of(kind)
        (release,) = tables["releases"]
        # Tables of people and households are published in each of the two periods.
        total = 2 * rho if kind.family in (Family.PEOPLE, Family.HOUSEHOLDS) else rho
        tables["study"] |= {"neighbours": relation, "rho": str(total)}
        release["rho"] = str(rho)
        if relation == "add_remove":
            tables["study"]["population"] = {}
            if kind.family in PANELS:
                tables["attributes"]["work"]["missing"] = "absent"
                release["rows"] = 60
        yield tables


@pytest.mark.parametrize("rho", [1e-12, 1e-11, 5e5])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_plan_is_printed_or_refused_in_a_line(kind, rho):
    for tables in studies(kind, rho):
        try:
            plan = summary(stream_dp.plan_study(stream_dp.parse_study(tables)))
        except UserError as refused:
            if rho < 1e-11 and "nothing would be left of the counts" in str(refused):
                continue
            raise
        assert "nan" not in json.dumps(plan.as_dict()) + plan.text(long=True)


@pytest.mark.parametrize("rho", [1e-13, 1e12])
@pytest.mark.parametrize("kind", list(Kind))
def test_budgets_that_say_nothing_are_refused(kind, rho):
    for tables in studies(kind, rho):
        with pytest.raises(UserError, match="must lie between 1e-12 and 1e6"):
            stream_dp.parse_study(tables)


def test_a_fit_with_a_large_budget_learns_answers_without_noise():
    homes = pa.table({"home": [1, 2], "region": ["north", "south"]})
    people = pa.table({"home": [1, 1, 2], "work": ["yes", "no", "yes"]})
    fitted = stream_dp.fit_tables(
        homes,
        people,
        key="home",
        most=2,
        rho=10**6,
        kind="hpd-fixed",
        rounds=1,
        simulation_seed=1,
        group_values={"region": ["north", "south"]},
        person_values={"work": ["yes", "no"]},
    )
    assert len(fitted.sample(seed=0)[0]) == 2
