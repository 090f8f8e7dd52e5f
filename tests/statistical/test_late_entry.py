"""People who first report at any period, under every default: answers are those of everybody.

First by histories: the weights of an answer are unbiased for a person of every history that enters
at any period, and its interval covers as often as it says. Then through the population itself,
from reports to published answers.
"""

from fractions import Fraction

import numpy as np
import pytest
from kit.histories import OPEN, Case, joint, study_of, totals, window
from kit.public_logs import Silent, public_of

from stream_dp.planning.plan import plan_study
from stream_dp.population.cells import Cells
from stream_dp.population.population import Population
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import LEVEL
from stream_dp.release.answer import QUANTILE as REACH

COUNT, RHO = 4, "1/20"
SIZED, CAP = {"size_share": "1/5"}, {"rows": 900}
KINDS = {
    "windows": [window(2)],
    "windows of one period": [window(1)],
    "windows of all periods": [window(COUNT)],
    "totals": [totals(**SIZED)],
    "joint": [joint(2)],
    "all": [window(3), totals(**SIZED), joint(2), window(1)],
}
MISSING = {
    "a value": {"missing": 0},
    "the event": {"missing": 1},
    "carry": {"missing": {"carry": True, "first": 0}},
    "carry the event": {"missing": {"carry": True, "first": 1}},
    "absent": {"missing": "absent"},
}


def defaults():
    """Every kind of release with nothing chosen, and every rule for what is missing."""
    for rule, how in MISSING.items():
        for kind, releases in KINDS.items():
            capped = [{**release, **CAP} for release in releases]
            if rule != "absent" or "joint" not in [r["kind"] for r in releases]:
                yield f"{kind}, {rule}", releases, {**how, "relation": "add_remove"}
            yield f"{kind}, {rule}, closed", releases, {**how, "closed": True}
            if rule == "absent":
                yield f"{kind}, capped", capped, OPEN
    for kind in ("windows", "totals", "joint"):
        plain = [{k: v for k, v in r.items() if k != "size_share"} for r in KINDS[kind]]
        for rule in ("a value", "carry", "absent"):
            yield f"{kind}, {rule}, n public", plain, {**MISSING[rule], "relation": "replace_one"}


DEFAULTS = {name: (releases, how) for name, releases, how in defaults()}
# In the suite a few of every kind and of every rule.
DRAWN = [
    pytest.param(name, marks=[pytest.mark.slow] if i % 5 else []) for i, name in enumerate(DEFAULTS)
]


def named_study(name):
    releases, how = DEFAULTS[name]
    return study_of(releases, count=COUNT, rho=RHO, **how)


def asked_of(declared, study):
    """(query, period number) of every kind, at every period."""
    values = [v for v in study.alphabet(declared).values if v != "absent"]
    if declared.kind != "cumulative":
        for number in range(declared.width, COUNT + 1):
            words = " ".join(["1"] * declared.width), " ".join(["0"] * declared.width)
            yield from ((f"pattern {word}", number) for word in (*map(str, values), *words))
            yield f"at-least 1 of last {declared.width} x=1", number
    if declared.kind != "window":
        for number in range(1, COUNT + 1):
            yield from ((f"total at-least {b}", number) for b in range(1, number + 1))


@pytest.mark.parametrize("name", DRAWN)
def test_no_default_is_wrong_by_those_who_enter_late(name):
    """Unbiased for every history; covered as often as stated, and not if the noise is otherwise."""
    study = named_study(name)
    # Where their number is declared everybody is there from the start, as whatever is filled in.
    case = Case(study, late=study.last_entry or (COUNT if study.size is None else 1))
    rows = case.system[0]
    source = SeededNoise(51)
    demand = [
        (variance, 500)
        for release in case.stream.releases
        for message in release.messages
        for variance in case.parameters[release.declared.name, message.number]
    ]
    noise = np.stack(source.draw(demand).noise, axis=1)
    hits, squares = [], []
    for declared in study.releases:
        best = case.best(declared.name)
        for text, number in asked_of(declared, study):
            answer = case.answer(best, declared, text, number)
            wanted = case.wanted(declared, text, number)
            true = float(wanted @ case.people)
            weights, constant = case.weights(answer)
            assert weights @ (rows @ case.people) + constant == pytest.approx(true)
            if study.size is None:
                assert weights @ rows == pytest.approx(wanted, abs=1e-7), (text, number)
            error, deviation = noise @ weights, answer.variance**0.5
            if deviation > 1e-9:
                hits.append(np.abs(error) <= REACH * deviation)
                squares.append((error / deviation) ** 2)
    covered = np.mean(hits, axis=0)
    assert abs(covered.mean() - LEVEL) <= 5 * covered.std() / len(covered) ** 0.5
    means = np.mean(squares, axis=0)
    assert abs(means.mean() - 1) <= 5 * means.std() / len(means) ** 0.5


# Through the population: 300 people report from the start, 60 more first at each later period.

STARTERS, NEWCOMERS = 300, 60
PEOPLE = STARTERS + NEWCOMERS * (COUNT - 1)
RNG = np.random.default_rng(12)
ENTRY = np.concatenate([np.ones(STARTERS, int), np.repeat(np.arange(2, COUNT + 1), NEWCOMERS)])
SAID = RNG.choice(3, (PEOPLE, COUNT), p=[0.3, 0.5, 0.2])  # 2: says nothing
SAID[np.arange(PEOPLE), ENTRY - 1] = RNG.choice(2, PEOPLE)
SAID[np.arange(COUNT) + 1 < ENTRY[:, None]] = 2


def counts(study):
    """By release and period, what the population counts of the reports."""
    population, by_period = Population(study), []
    for t in range(COUNT):
        said = np.flatnonzero(SAID[:, t] != 2)
        ids = said.astype(np.uint64) + np.uint64(1)
        size = len(said)
        hashes, where = ids * np.uint64(0x9E3779B97F4A7C15), np.zeros(size, np.uint16)
        period, code = np.full(size, t + 1, np.uint16), SAID[said, t].astype(np.uint8)
        population.fold(
            Cells(
                hi=hashes,
                lo=ids,
                period=period,
                attribute=where,
                code=code,
                partition=where,
                offset=np.arange(size) + t,
            ),
            [],
        )
        by_period.append(population.close().counts)
    return by_period


def symbols(rule):
    """(people, periods): what stands for everybody in every period, -1 before they are there."""
    values = np.where(SAID == 2, {"a value": 0, "the event": 1, "absent": 2}.get(rule, 2), SAID)
    if rule.startswith("carry"):
        last = np.full(PEOPLE, "event" in rule, int)
        for t in range(COUNT):
            last = values[:, t] = np.where(SAID[:, t] == 2, last, SAID[:, t])
    return values


def true(declared, rule, text, number, last_entry):
    """How many people a query is true of, by what they said."""
    known, admitted = symbols(rule), last_entry >= ENTRY
    there = admitted & (number >= ENTRY)
    word, *rest = text.split()
    if word == "total":
        within = (np.arange(COUNT) + 1 >= ENTRY[:, None]) & (np.arange(COUNT) < number)
        within &= admitted[:, None]
        return int((((known == 1) & within).sum(axis=1) >= int(rest[1])).sum())
    width = len(rest) if word == "pattern" else int(rest[3])
    last = known[there, number - width : number]
    if word == "pattern":
        return int((last == np.array([int(x) for x in rest])).all(axis=1).sum())
    return int((last == 1).any(axis=1).sum())


def published(name, source):
    study = named_study(name)
    return public_of(study, counts(study), source)


POPULATED = [param for param in DRAWN if "n public" not in param.values[0]]


@pytest.mark.parametrize("name", POPULATED)
def test_without_noise_published_answers_are_those_of_everybody(name):
    rule = name.split(", ")[1].replace("capped", "absent")
    public = published(name, Silent())
    last_entry = public.study.last_entry or COUNT
    for declared in public.study.releases:
        for text, number in asked_of(declared, public.study):
            answer = public.answer(declared.name, text, str(number), count=True)
            wanted = true(declared, rule, text, number, last_entry)
            assert answer.value == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    "name", ["windows, a value", "joint, carry", "totals, absent", "all, carry, closed"]
)
def test_published_intervals_cover_those_of_everybody(name):
    rule, covered = name.split(", ")[1], []
    study = named_study(name)
    seen = counts(study)
    asked = [(r, text, number) for r in study.releases for text, number in asked_of(r, study)]
    queries = [(release.name, text, str(number)) for release, text, number in asked]
    last_entry = study.last_entry or COUNT
    truths = np.array([true(r, rule, text, number, last_entry) for r, text, number in asked])
    for seed in range(14):
        joint = public_of(study, seen, SeededNoise(seed)).answers(queries, count=True)
        low, high = np.array([answer.interval for answer in joint.answers]).T
        covered.append(((low <= truths) & (truths <= high)).mean())
    assert abs(np.mean(covered) - LEVEL) <= 4 * np.std(covered) / len(covered) ** 0.5


def test_a_declared_number_counts_those_who_report_late_from_the_start():
    """They were there and said nothing: their places wait for them, with the missing rule."""
    for rule in ("a value", "carry", "absent"):
        study = study_of([window(2)], count=COUNT, rho=RHO, relation="replace_one", **MISSING[rule])
        public = public_of(study, counts(study), Silent())
        known = symbols(rule)
        nobody = study.size - PEOPLE  # places that nobody ever claims
        blank = study.attributes["x"].first_code
        for number in range(2, COUNT + 1):
            for a in (0, 1):
                for b in (0, 1):
                    pairs = (known[:, number - 2] == a) & (known[:, number - 1] == b)
                    wanted = pairs.sum() + nobody * (a == b == blank)
                    answer = public.answer("r0", f"pattern {a} {b}", str(number), count=True)
                    assert answer.value == pytest.approx(wanted, abs=1e-4)


# Which strategy is chosen.


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_plan_says_which_strategy_and_which_weights(name):
    study = named_study(name)
    for planned in plan_study(study).releases:
        why = planned.facts.get("strategy_chosen_from_theory", "")
        if why:
            assert why.startswith("residuals (a pattern's deviation: residuals")
            assert "histogram" in why
            rule = planned.facts["weights"]
            assert ("people enter late" in rule) == study.admits_late_entry(planned.release)
            assert ("late_entry" in planned.facts) == study.admits_late_entry(planned.release)


def test_noise_that_is_otherwise_is_noticed():
    """The check of the spread fails at a scale 5 % off, either way."""
    case = Case(named_study("windows, a value"), late=COUNT)
    best = case.best("r0")
    (declared,) = case.study.releases
    answers = [case.answer(best, declared, *asked) for asked in asked_of(declared, case.study)]
    for scale, right in (
        (Fraction(95, 100), False),
        (Fraction(1), True),
        (Fraction(105, 100), False),
    ):
        demand = [
            (variance * scale**2, 20_000)
            for message in case.stream.releases[0].messages
            for variance in case.parameters["r0", message.number]
        ]
        noise = np.stack(SeededNoise(52).draw(demand).noise, axis=1)
        squares = np.mean([(noise @ case.weights(f)[0]) ** 2 / f.variance for f in answers], axis=0)
        error = squares.std() / len(squares) ** 0.5
        assert bool(abs(squares.mean() - 1) <= 5 * error) is right
