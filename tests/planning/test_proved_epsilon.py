"""The eps that `check` states beside that of zCDP."""

import pytest
from kit.kinds_of_releases import study_of
from kit.studies import attribute, small_study, window

from stream_dp import parse_study
from stream_dp.batch.kinds import planned_phases
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study.families import Kind
from stream_dp.study.noisy_gate import noisy_gate

# All noise is discrete Gaussian, and nothing is selected.
GAUSSIAN = {"window", "cumulative", "joint", "independent", "sizes"}


@pytest.mark.parametrize("kind", Kind)
def test_only_studies_of_discrete_gaussian_noise_have_it(kind):
    study = parse_study(study_of(kind))
    proved, allowed = plan_study(study).proved, kind in GAUSSIAN
    assert (proved.least_variance is not None) == allowed
    assert proved.of(study.rho) <= epsilon(study.rho, study.delta)
    if not allowed:
        assert proved.of(study.rho) == epsilon(study.rho, study.delta)


def test_the_least_variance_is_that_of_panels_and_gate():
    study = small_study(
        attributes={"a": attribute([0, 1], missing=0)},
        releases=[window("w", "a", width=2, rho="1/7")],
        rho="1/5",
        gate={"rho": "1/100", "least": "1/2"},
    )
    plan = plan_study(study)
    mechanism = plan.mechanisms["w"]
    periods = range(1, mechanism.horizon + 1)
    drawn = [v for t in periods for v, _ in mechanism.demand(t)]
    least = plan.proved.least_variance
    assert least == min([*drawn, noisy_gate(study).variance])
    printed = plan.as_dict()
    assert printed["least_epsilon_total"] == str(gaussian_epsilon(study.rho, study.delta, least))
    assert float(printed["least_epsilon_total"]) < float(printed["epsilon_total"])
    assert f"less is proved: eps = {printed['least_epsilon_planned']}" in plan.text()


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_a_table_has_it_if_its_phases_follow_from_the_study(neighbours):
    declared = study_of(Kind.MIXTURE)
    declared["study"]["neighbours"] = neighbours
    if neighbours == "add_remove":
        del declared["study"]["population"]
    release = declared["releases"][0]
    release["rounds"] = 0
    del release["per_round"]
    study = parse_study(declared)
    least = 1 / (2 * study.batches[0].rho / study.periods.count)
    found = plan_study(study).proved.least_variance
    assert found is None if neighbours == "add_remove" else 0 < found <= least


def test_later_tables_of_a_schedule_that_select_pairs_have_none():
    """The later of combined tables have less than the mean rho, so that they may pick pairs."""
    names = [f"a{i}" for i in range(6)]
    table = {"name": "people", "kind": "mixture", "attributes": names, "every": 1, "rho": "1/1200"}
    study = small_study(
        attributes={name: attribute([0, 1, 2, 3], missing=0) for name in names},
        releases=[table],
        rho="1/100",
        size=4179,
        periods={"first": "2026-01", "every": "month", "count": 12},
    )
    (release,) = study.batches
    of_mean = all(phase.gaussian for phase in planned_phases(study, release))
    assert of_mean
    assert plan_study(study).proved.least_variance is None
