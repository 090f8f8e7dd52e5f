"""Intervals cover the truth as often as they say, and noise 5 % off in variance is noticed.

An estimate is the truth and fixed weights on the noise, so repetitions need only the noise, drawn
from the mechanisms' own discrete Gaussians, and no study is run again. Shares of a noisy number of
people go through Fieller's interval, repetition by repetition.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from kit.histories import OPEN, SIZE, Case, joint, single_ratio, study_of, totals, window

from stream_dp.answers.joint_answers import fieller_ratio
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import LEVEL
from stream_dp.release.answer import QUANTILE as REACH

REPETITIONS = 2_000
PRIVATE = {"relation": "add_remove", "rho": "1/50"}
PUBLIC = {"relation": "replace_one", "rho": "1/50"}
BINS, PLAIN = window(3, strategy="residuals"), window(3, strategy="histogram")
ONCE = totals(size_share="1/5")
STUDIES = {
    "residuals, n public": (study_of([BINS, totals()], **PUBLIC), 1),
    "histograms, n public": (study_of([PLAIN, totals(counter="unbounded")], **PUBLIC), 1),
    "joint": (study_of([joint(2)], **PUBLIC), 1),
    "n private": (study_of([window(3), ONCE], **PRIVATE), 4),
    "histograms, n private": (
        study_of([window(2, strategy="histogram"), ONCE], count=3, **PRIVATE),
        3,
    ),
    "people come and go": (
        study_of(
            [window(2, rows=700), totals(rows=700, size_share="1/5")],
            count=3,
            **{**OPEN, "rho": "1/50"},
        ),
        3,
    ),
}


@dataclass(frozen=True)
class Asked:
    """One named query: of which study and release, at which period, as a share or a count."""

    study: str
    release: str
    text: str
    number: int
    share: bool


ASKED = {
    "a pattern": Asked("residuals, n public", "r0", "pattern 1 1 1", 4, share=True),
    "a pattern, early": Asked("histograms, n public", "r0", "pattern 0 1 1", 3, share=False),
    "at least": Asked("n private", "r0", "at-least 1 of last 3 x=1", 4, share=True),
    "consecutive": Asked(
        "histograms, n public", "r0", "consecutive 2 of last 3 x=1", 4, share=True
    ),
    "narrower": Asked("histograms, n private", "r0", "pattern 1", 2, share=True),
    "totals": Asked("residuals, n public", "r1", "total at-least 2", 3, share=True),
    "totals, late": Asked("histograms, n public", "r1", "total at-least 3", 4, share=False),
    "totals, n private": Asked("n private", "r1", "total at-least 1", 4, share=True),
    "totals, joint": Asked("joint", "r0", "total at-least 2", 4, share=True),
    "a pattern, joint": Asked("joint", "r0", "at-least 1 of last 2 x=1", 3, share=False),
    "present": Asked("people come and go", "r0", "pattern 1 1", 3, share=True),
    "totals, entered": Asked("people come and go", "r1", "total at-least 1", 3, share=True),
}


STRATUM = {"rows": 700, "where": {"region": "n"}}
CAP = {"rows": 700}
# Nothing is chosen here: neither strategies nor counters nor padding.
DEFAULTS = {
    "replace_one": (study_of([window(3), totals()], **PUBLIC), 1),
    "replace_in_place": (
        study_of([joint(2)], relation="replace_in_place", rho="1/50"),
        1,
    ),
    "add_remove": (study_of([window(3), ONCE], **PRIVATE), 4),
    "add_remove, people come and go": (
        study_of([window(2, **CAP), totals(**CAP)], count=3, **{**OPEN, "rho": "1/50"}),
        3,
    ),
    "replace_one, a stratum": (
        study_of([window(2, **STRATUM), totals(**STRATUM)], count=3, **PUBLIC),
        3,
    ),
}
BY_DEFAULT = [
    Asked("replace_one", "r0", "pattern 1 1 1", number=4, share=True),
    Asked("replace_one", "r0", "at-least 1 of last 3 x=1", number=3, share=True),
    Asked("replace_one", "r1", "total at-least 2", number=4, share=True),
    Asked("replace_in_place", "r0", "pattern 1 0", number=3, share=True),
    Asked("replace_in_place", "r0", "pattern 1", number=2, share=False),
    Asked("replace_in_place", "r0", "total at-least 3", number=4, share=True),
    Asked("add_remove", "r0", "consecutive 2 of last 3 x=1", number=4, share=True),
    Asked("add_remove", "r0", "pattern 1 ? ?", number=3, share=False),
    Asked("add_remove", "r1", "total at-least 1", number=4, share=True),
    Asked("add_remove, people come and go", "r0", "pattern 1 1", number=3, share=True),
    Asked("add_remove, people come and go", "r0", "pattern absent 1", number=2, share=False),
    Asked("add_remove, people come and go", "r1", "total at-least 2", number=3, share=True),
    Asked("replace_one, a stratum", "r0", "at-least 1 of last 2 x=1", number=3, share=True),
    Asked("replace_one, a stratum", "r0", "pattern 0 1", number=2, share=False),
    Asked("replace_one, a stratum", "r1", "total at-least 1", number=3, share=True),
]


@pytest.fixture(scope="module")
def cases():
    return {name: Case(study, late=late) for name, (study, late) in STUDIES.items()}


@pytest.fixture(scope="module")
def default_cases():
    return {name: Case(study, late=late) for name, (study, late) in DEFAULTS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("asked", BY_DEFAULT, ids=str)
def test_intervals_of_defaults_cover_as_often_as_they_say(default_cases, asked):
    case = default_cases[asked.study]
    draws = noise(case, REPETITIONS, seed=44)
    share = covered(asked, case, draws).mean()
    assert abs(share - LEVEL) <= 4 * (LEVEL * (1 - LEVEL) / REPETITIONS) ** 0.5


def noise(case, repetitions, seed):
    """(repetitions, measurements): the noise of every measurement, in order."""
    source, demand = SeededNoise(seed), []
    for release in case.stream.releases:
        for message in release.messages:
            for variance in case.parameters[release.declared.name, message.number]:
                demand.append((variance, repetitions))
    return np.stack(source.draw(demand).noise, axis=1)


def covered(asked, case, draws):
    """Whether each repetition's interval covers the truth."""
    best = case.best(asked.release)
    release = best.release
    value = case.answer(best, release.declared, asked.text, asked.number)
    rows = case.system[0]
    true = float(case.wanted(release.declared, asked.text, asked.number) @ case.people)
    weights, constant = case.weights(value)
    assert weights @ (rows @ case.people) + constant == pytest.approx(true)
    values = true + draws @ weights
    if not asked.share or case.study.size is not None:
        return np.abs(values - true) <= REACH * value.variance**0.5
    question, _ = best.people_question(asked.number, totals=asked.text.startswith("total"))
    people = case.stream.answers([question])
    weights, constant = case.weights(people)
    count = float(weights @ (rows @ case.people) + constant)
    counts = count + draws @ weights
    covered = []
    for one, other in zip(values, counts, strict=True):
        above, below = (
            replace(a, values=np.array([v])) for a, v in ((value, one), (people, other))
        )
        low, high = fieller_ratio(single_ratio(above, below), REACH)[2]
        covered.append(low <= true / count <= high)
    return np.array(covered)


@pytest.mark.parametrize("name", ASKED)
def test_intervals_cover_the_truth_as_often_as_they_say(cases, name):
    asked = ASKED[name]
    case = cases[asked.study]
    draws = noise(case, REPETITIONS, seed=41)
    share = covered(asked, case, draws).mean()
    assert abs(share - LEVEL) <= 4 * (LEVEL * (1 - LEVEL) / REPETITIONS) ** 0.5


def spread(case, draws):
    """Mean squared errors of all queries over their stated variances, and its standard error."""
    squares = []
    for asked in [a for a in ASKED.values() if cases_of(a) is case.study]:
        best = case.best(asked.release)
        value = case.answer(best, best.release.declared, asked.text, asked.number)
        squares.append((draws @ case.weights(value)[0]) ** 2 / value.variance)
    each = np.mean(squares, axis=0)
    return each.mean(), each.std() / len(each) ** 0.5


def cases_of(asked):
    return STUDIES[asked.study][0]


@pytest.mark.parametrize("name", STUDIES)
def test_standard_errors_are_right_and_noise_that_is_not_is_noticed(cases, name):
    """Errors are linear in the noise, and so their squares in its variance."""
    case = cases[name]
    mean, error = spread(case, noise(case, 60_000, seed=42))
    for variance in (0.95, 1, 1.05):
        assert bool(abs(variance * mean - 1) <= 4 * variance * error) is (variance == 1)


def test_everybody_is_certain(cases):
    """Where their number is public, or is itself what the share is of."""
    case = cases["histograms, n public"]
    best = case.best("r0")
    answer = best.patterns(4, np.ones(2))
    assert (answer.value, answer.variance) == (SIZE, 0)
    case = cases["people come and go"]
    best = case.best("r0")
    here = best.patterns(3, np.array([1.0, 1, 0]))
    people = case.stream.answers([best.people_question(3, totals=False)[0]])
    share, error, (low, high) = fieller_ratio(single_ratio(here, people), REACH)
    assert (share, error) == pytest.approx((1, 0), abs=1e-9)
    assert (low, high) == pytest.approx((1, 1), abs=1e-9)
