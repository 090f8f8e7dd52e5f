"""The stated errors of panels: simulated once, near those of an evaluation, the same everywhere."""

from functools import cache

import numpy as np
import pytest
from kit.panels import StudyFolder, script
from kit.planned_errors import SIMULATED
from kit.studies import attribute, cumulative, joint, small_study, window

import stream_dp
from stream_dp.planning import panel_errors as planned
from stream_dp.planning import study_summary
from stream_dp.planning.panel_errors import panel_errors, prior_people
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.services.evaluate.panel_report import evaluation_text, root_mean_square
from stream_dp.services.evaluate.repeated_panels import evaluate_panels
from stream_dp.studyfile import load_study


@pytest.fixture(autouse=True)
def _simulated(monkeypatch):
    """Each of these tests simulates itself."""
    monkeypatch.setattr(planned, "simulated_errors", SIMULATED)


PEOPLE, PERIODS = 3000, 6
RELEASES = [
    window("w", "x", width=2, rho="1/50"),
    cumulative("c", "x", [1], rho="1/50"),
    joint("j", "x", width=2, event=[1], rho="1/50"),
]


def study(releases=RELEASES, missing=0, count=PERIODS, size=PEOPLE, **changes):
    return small_study(
        rho=1,
        periods={"first": 1, "every": "step", "count": count},
        size=size,
        releases=releases,
        **{"attributes": {"x": attribute([0, 1], missing=missing)}, **changes},
    )


CAPPED = [{**release, "rows": PEOPLE} for release in RELEASES]
SHARED = [{**r, **({"size_share": "1/5"} if r["kind"] == "cumulative" else {})} for r in RELEASES]
PRIVATE = {"neighbours": "add_remove", "size": None}
STUDIES = {
    "public size": study(),
    "closed": study(SHARED, closed=True, **PRIVATE),
    "late": study(SHARED, **PRIVATE),
    "come and go": study(CAPPED, missing="absent", **PRIVATE),
}


@cache
def errors_of(name):
    return panel_errors(plan_study(STUDIES[name]))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "closed")) for n in STUDIES]
)
def test_they_are_near_what_an_evaluation_measures_on_people_of_the_prior(name):
    declared, stated = STUDIES[name], errors_of(name)
    absent = 2 if name == "come and go" else None
    people = 10_000 if name in ("closed", "late") else PEOPLE * 4 // 5 if absent else PEOPLE
    truth = prior_people(2 + (absent is not None), people, PERIODS, absent=absent, late=True)
    measured = evaluate_panels(declared, {"x": truth}, 12, seed=11, jobs=1, progress=False)
    ratios = []
    for release in measured.releases:
        for line in release.lines:
            own = [e for e in stated[release.release.split(" ")[0]] if e.query == line.query]
            if line.answer == "panel":
                ratios += [error.error / root_mean_square(line.rmse) for error in own]
    assert "stated RMSE" in evaluation_text(measured, stated)
    assert len(ratios) >= 10
    assert abs(np.log(ratios)).max() < 0.5
    assert np.exp(np.log(ratios).mean()) == pytest.approx(1, abs=0.15)


def test_they_are_the_same_again_and_have_two_digits():
    first, plan = errors_of("public size"), plan_study(STUDIES["public size"])
    panel = plan.panels[0]
    assert first[panel.release.name] == SIMULATED(plan.study, panel.release, panel.mechanism)
    for errors in first.values():
        assert errors
        for error in errors:
            assert error.error == float(f"{error.error:.2g}") > 0
            assert error.bias == float(f"{error.bias:.2g}")


def test_half_the_noise_has_half_the_error():
    declared = study([window("w", "x", width=1, rho="1/200")], neighbours="add_remove", size=None)
    better = study([window("w", "x", width=1, rho="1/50")], neighbours="add_remove", size=None)
    (coarse, *_), (fine, *_) = (panel_errors(plan_study(s))["w"] for s in (declared, better))
    assert coarse.error / fine.error == pytest.approx(2, rel=0.1)


def test_padding_is_no_error_and_a_bias_is_stated():
    padded = study([window("w", "x", width=2, rho="1/50", padded=True)])
    errors = panel_errors(plan_study(padded))["w"]
    padding = plan_study(padded).panels[0].mechanism.padding
    assert all(error.error < padding for error in errors)
    few = study([window("w", "x", width=4, rho="1/2000")], size=60)
    assert any(error.bias for error in panel_errors(plan_study(few))["w"])


def test_long_and_wide_releases_are_bounded():
    long = study([window("w", "x", width=2, rho="1/50")], count=200)
    assert len(panel_errors(plan_study(long))["w"]) == 4
    totals = study([cumulative("c", "x", [1], rho="1/50")], count=60)
    assert [e.query for e in panel_errors(plan_study(totals))["c"]] == [
        "total at-least 1",
        "total at-least 3",
    ]
    wide = study([window("w", "x", width=15, rho="1/50")], count=15)
    assert panel_errors(plan_study(wide)) == {"w": ()}


def test_check_prints_them(monkeypatch):
    monkeypatch.setattr(study_summary, "panel_errors", lambda plan: errors_of("public size"))
    short = summary(plan_study(STUDIES["public size"]))
    text, data = short.text(long=True), short.as_dict()
    for errors in short.panel_errors.values():
        for error in errors:
            (line,) = {x for x in text.splitlines() if x.startswith(f"    {error.query} ")} & {
                x for x in text.splitlines() if f"  {error.error:,g}" in x
            }
            assert (" on average" in line) == bool(error.bias)
    assert next(e["query"] for e in data["panel_errors"]["c"]) == "total at-least 1"


def test_certificates_repeat_what_the_first_entry_stores(tmp_path, monkeypatch):
    """They are simulated once: a releaser that starts again reads them."""
    place = StudyFolder(tmp_path / "study")
    days = script()
    place.send(days[0])
    place.run()
    expected = panel_errors(plan_study(load_study(place.file)[0]))
    monkeypatch.setattr(planned, "simulated_errors", lambda *_, **__: 1 / 0)
    place.send([record for records in days[1:] for record in records])
    assert place.run()
    public = stream_dp.open(place.public_source)
    public.verify()
    releases = public.published
    assert {release.certificate.release for release in releases} == {*expected}
    for release in releases:
        certificate = release.certificate
        stated = [(e.query, e.error, e.bias) for e in certificate.panel_errors]
        assert stated == [(e.query, e.error, e.bias) for e in expected[certificate.release]]
        assert stated


def test_equal_releases_are_simulated_once(monkeypatch):
    attributes = {name: attribute([0, 1], missing=0) for name in ("x", "y", "z")}
    releases = [window(f"w-{name}", name, width=2, rho="1/100") for name in attributes]
    releases += [window("other", "x", width=3, rho="1/100")]
    plan = plan_study(study(releases, attributes=attributes))
    simulated = []

    def noted(study, release, mechanism, **how):
        simulated.append(release.name)
        return SIMULATED(study, release, mechanism, **how)

    monkeypatch.setattr("stream_dp.planning.panel_errors.simulated_errors", noted)
    errors = panel_errors(plan)
    assert simulated == ["w-x", "other"]
    figures = {n: [(e.error, e.bias) for e in errors[n]] for n in ("w-x", "w-y", "w-z")}
    assert figures["w-x"] == figures["w-y"] == figures["w-z"]
    assert {e.query for e in errors["w-z"]} == {e.query.replace("x=", "z=") for e in errors["w-x"]}
