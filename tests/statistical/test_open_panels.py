"""Panels of people who come and go hold as many people as there are, and say how they are biased.

Counts that noise takes below 0 are raised to 0. Were that paid by the pattern of absences, the
panel would hold more people than there are: 12 to 21 % in studies such as these.
"""

import hashlib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from kit.histories import OPEN, joint, study_of, window
from kit.public_logs import Silent, counts_of, public_of

from stream_dp import run_study
from stream_dp.continual.mechanisms import mechanism
from stream_dp.continual.window.window import FixedWindow
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_panels import ADVICE, bias_words

T, PEOPLE, ROWS, RUNS = 10, 1500, 3000, 12
ABSENT = 2


def histories():
    """(people, T): a third come late, some leave in every period, few of them come back."""
    rng = np.random.default_rng(1)
    symbols = np.full((PEOPLE, T), ABSENT)
    start = np.where(rng.random(PEOPLE) < 0.3, rng.integers(1, T, PEOPLE), 0)
    here, value = np.zeros(PEOPLE, bool), rng.random(PEOPLE) < 0.3
    for t in range(T):
        stays = np.where(here, rng.random(PEOPLE) < 0.9, rng.random(PEOPLE) < 0.05)
        here = (start == t) | ((start < t) & stays)
        value = np.where(rng.random(PEOPLE) < 0.85, value, rng.random(PEOPLE) < 0.3)
        symbols[here, t] = value[here]
    return symbols.astype(np.uint8)


def declared(release, rho):
    return study_of([{**release, "rows": ROWS}], count=T, rho=rho, **OPEN)


def present(release, rho):
    """(runs, periods): people present in the panel, over those that there are."""
    study, truth = declared(release, rho), histories()
    form = mechanism(study, study.releases[0])
    counts = [counts_of(study, study.releases[0], truth, t) for t in range(1, T + 1)]
    source, runs = SeededNoise(5), []
    for _ in range(RUNS):
        state, seen = form.init(), []
        for t in range(1, T + 1):
            state, step = form.step(state, counts[t - 1], source.draw(form.demand(t)))
            if step is not None:
                there = (truth[:, t - 1] != ABSENT).sum()
                seen.append((step.columns[:, -1] != ABSENT).sum() / there)
        runs.append(seen)
    return np.array(runs)


CASES = {
    "by default": (window(3), "1/200"),
    "histograms": (window(3, strategy="histogram"), "1/200"),
    "pairs": (window(2), "1/1000"),
    "joint": (joint(3), "1/100"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_panel_holds_as_many_people_as_there_are(name):
    runs = present(*CASES[name])
    errors = runs.std(axis=0) / len(runs) ** 0.5
    assert (np.abs(runs.mean(axis=0) - 1) < 0.03 + 3 * errors).all(), (runs.mean(axis=0), errors)


def test_nobody_is_in_the_panel_without_noise_who_is_not_there():
    study, truth = declared(window(3), "1/200"), histories()
    counts = [{"r0": counts_of(study, study.releases[0], truth, t)} for t in range(1, T + 1)]
    panel = public_of(study, counts, Silent()).panel("r0")
    assert np.abs((panel.symbols != ABSENT).sum(axis=0) - (truth != ABSENT).sum(axis=0)).max() <= 3


@pytest.mark.parametrize("strategy", ["histogram", "residuals"])
def test_a_panel_of_a_closed_population_is_not_touched(strategy):
    """The same rows for the same noise, whatever is done for open ones."""
    form = FixedWindow(
        values=(0, 1),
        width=2,
        horizon=5,
        rho=Fraction(1, 50),
        neighbours="replace_one",
        padded=False,
        rows=60,
        strategy=strategy,
    )
    source, state, seen = SeededNoise(4), form.init(), hashlib.sha256()
    for t in range(1, 6):
        counts = np.array([30, 10, 5, 15]) if t > 1 else np.zeros(4, np.int64)
        state, step = form.step(state, counts, source.draw(form.demand(t)))
        if step is not None:
            seen.update(step.columns.tobytes())
    assert seen.hexdigest()[:16] == CLOSED[strategy]


CLOSED = {"histogram": "ac90bee95a99176f", "residuals": "d56701fc7c0f2565"}


# Eight symbols, one of them absence, from reports to the published panel.

CATEGORIES = [f"c{i}" for i in range(7)]


def careers(people, periods):
    """(people, periods): categories, -1 for absence: a third come late, a twentieth leave each
    time."""
    rng = np.random.default_rng(4)
    come = np.where(rng.random(people) < 0.7, 0, rng.integers(0, periods, people))
    leave = come + rng.geometric(0.05, people)
    now, columns = np.minimum(rng.geometric(0.4, people) - 1, 6), []
    for t in range(periods):
        now = np.where(rng.random(people) < 0.8, now, rng.integers(0, 7, people))
        columns.append(np.where((come <= t) & (t < leave), now, -1))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in (2, 3))])
def test_a_run_over_reports_publishes_as_many_people_as_there_are(seed):
    truth = careers(3000, 8)
    release = {"attribute": "x", "name": "pairs", "rho": "1/20"}
    how = OPEN | {"values": CATEGORIES}
    study = study_of([window(2, rows=4000, **release)], count=8, **how)
    cells = [[CATEGORIES[code] if code >= 0 else None for code in column] for column in truth.T]
    names = ["person", *map(str, range(1, 9))]
    reports = pa.table(dict(zip(names, [[f"p{i}" for i in range(3000)], *cells], strict=True)))
    public = run_study(study, reports, attribute="x", simulation_seed=seed)
    here = (public.panel("pairs").symbols != len(CATEGORIES)).sum(axis=0)
    there = (truth >= 0).sum(axis=0)
    assert np.abs(here / there - 1).max() <= 0.03, here / there


# What is said of it.


@pytest.mark.parametrize(
    ("release", "how", "words"),
    [
        (window(3, rows=ROWS), OPEN, "a pattern that nobody has gets up to about"),
        (window(2), {}, "counts below 0 are raised to 0"),
        (window(2, padded=True), {}, "biased towards uniform"),
        (window(2), {"relation": "add_remove"}, "no person that first reports after the first"),
        ({"kind": "cumulative", "event": [1]}, {}, "clamped to rise with time"),
        (
            {"kind": "cumulative", "event": [1], "rows": 900},
            {"relation": "add_remove"},
            "shares of rows are too small",
        ),
        (joint(2), {}, "patterns and sums are reconciled"),
    ],
)
def test_the_plan_and_the_certificate_say_how_a_panel_is_biased(release, how, words):
    study = study_of([release], count=4, **how)
    (one,) = plan_study(study).releases
    assert words in one.facts["panel_bias"]
    assert one.facts["panel_bias"].endswith(f"; {ADVICE}")
    assert "panel bias: " in plan_study(study).text()
    form = mechanism(study, study.releases[0])
    symbols = np.ones((study.size or 500, 4), np.uint8)
    counts = [{"r0": counts_of(study, study.releases[0], symbols, t)} for t in range(1, 5)]
    public = public_of(study, counts, Silent())
    for published in public.releases:
        said = published.certificate.panel_bias
        assert said == one.facts["panel_bias"] == bias_words(study, study.releases[0], form)
