"""Regressions from noisy measurements: against the records without noise, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from kit.data_sets import PEOPLE_TEXT, declared, every_pair, groups_table, people_table, published

from stream_dp.answers.tables.conjunction import parse_conjunction
from stream_dp.answers.tables.joint_sums import EmptyCells, JointTable, NotMeasured
from stream_dp.answers.tables.model_formula import parse_formula
from stream_dp.answers.tables.people_counts import residual_weights
from stream_dp.answers.tables.regression import BROKEN, RULED, regress
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.residual_counts import all_residuals, residual
from stream_dp.errors import UserError
from stream_dp.release.published_tables import coded_people, column_values

LINEAR = [
    "sex=f ~ age + work",
    "work=full|half ~ age*sex",
    "sex=m ~ factor(work)",
    "sex=f ~ work=some|none + age",
    "age=40+ ~ sex + work=full + sex:work=full",
]
LOGISTIC = ["sex ~ age + work", "sex ~ age*work", "work=full ~ sex", "age=0-29 ~ work=none + sex"]
MODELS = [*((text, False) for text in LINEAR), *((text, True) for text in LOGISTIC)]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(("text", "logistic"), MODELS)
def test_without_noise_it_is_the_fit_of_the_records(text, logistic, moves):
    tables, _, _ = people_table(moves=moves, again=[(0, 1), (1, 2)])
    fit = regress(tables, text, logistic=logistic, sampling=True)
    assert fit.people == pytest.approx(300)
    assert fit.covariance == pytest.approx(fit.covariance.T)
    for place, c in enumerate(fit.coefficients):
        assert c.naive is not None
        assert c.sampled is not None
        assert c.estimate == pytest.approx(c.naive[0], abs=1e-7)
        assert c.standard_error == pytest.approx(fit.covariance[place, place] ** 0.5)
        (low, high), (below, above) = c.interval, c.sampled.interval
        assert below <= low < c.estimate < high <= above
        assert c.sampled.standard_error > c.standard_error > 0
    data = fit.as_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_sampling_is_near_the_naive_error_where_the_model_is_right():
    """Of a saturated model of indicators both are of the same order."""
    tables, _, _ = people_table()
    fit = regress(tables, "sex ~ work", logistic=True, sampling=True)
    for c in fit.coefficients:
        naive = (c.naive[1][1] - c.naive[1][0]) / 3.92
        sampling = (c.sampled.standard_error**2 - c.standard_error**2) ** 0.5
        assert sampling == pytest.approx(naive, rel=0.05)


def test_sums_of_cells_are_the_answers_of_queries():
    tables, _, _ = people_table(noise=1.0, moves=True, again=[(0, 2)])
    for text, columns, place in [
        ("age=30-39 & work=half", ("age", "work"), (1, 2)),
        ("age=40+ & sex=m & work=none", ("age", "sex", "work"), (2, 1, 0)),
        ("sex=m", ("sex",), (1,)),
    ]:
        joint = JointTable(columns, tables)
        function = np.zeros((1, *joint.shape))
        function[(0, *place)] = 1
        sums, weights = (
            joint.sums(function),
            residual_weights(parse_conjunction(text, tables), tables),
        )
        assert sums.values(tables)[0] == pytest.approx(weights.value(tables))
        variance = float(sums.in_noise(tables).power(2).sum())
        assert variance == pytest.approx(weights.covariance(weights, tables))


def test_what_does_not_depend_on_a_column_needs_no_measurement_of_it():
    tables, _, _ = people_table(ways=2)
    joint = JointTable(("age", "sex", "work"), tables)
    ages = np.broadcast_to(np.arange(3.0)[:, None, None], joint.shape)[None]
    assert joint.sums(ages).values(tables)[0] == pytest.approx(
        JointTable(("age",), tables).sums(np.arange(3.0)[None]).values(tables)[0]
    )
    works = ages * np.arange(4.0) * np.arange(1, 3)[:, None]
    with pytest.raises(NotMeasured, match="age, sex, work"):
        joint.sums(works)


RULE = "age = 0-29 -> work = none"
RULED_MODELS = [
    ("work=full ~ age", False),
    ("sex=f ~ age + work", False),
    ("sex ~ age + work", True),
    ("work=full|half ~ age*sex", False),
]


@pytest.mark.parametrize(("text", "logistic"), RULED_MODELS)
def test_rules_leave_the_fit_of_the_records_and_smaller_errors(text, logistic):
    ruled, _, _ = people_table(moves=True, again=[(0, 1)], rules=[RULE], kept=True)
    free, _, _ = people_table(moves=True, again=[(0, 1)], kept=True)
    with_rules, without = (regress(tables, text, logistic=logistic) for tables in (ruled, free))
    assert RULED in with_rules.notes
    assert not without.notes
    for c, before in zip(with_rules.coefficients, without.coefficients, strict=True):
        assert c.estimate == pytest.approx(c.naive[0], abs=1e-6)
        assert c.standard_error <= before.standard_error * (1 + 1e-6)
    smaller = with_rules.coefficients[1].standard_error / without.coefficients[1].standard_error
    assert smaller < 0.99


def test_ruled_sums_are_not_correlated_with_the_empty_cells():
    tables, _, _ = people_table(noise=1.0, moves=True, again=[(0, 2)], rules=[RULE])
    empty = EmptyCells.of(["age", "work"], tables)
    assert empty.counts.values(tables).size == 3
    joint = JointTable(("age", "work"), tables)
    sums = empty.given(joint.sums(np.eye(12).reshape(12, *joint.shape)))
    counts = sums.values(tables).reshape(joint.shape)
    assert counts[0, 1:] == pytest.approx(0, abs=1e-5)
    assert (
        abs(
            counts[1:, 1:]
            - joint.sums(np.eye(12).reshape(12, 3, 4)).values(tables).reshape(3, 4)[1:, 1:]
        ).max()
        > 1
    )
    noise = sums.in_noise(tables) @ empty.counts.in_noise(tables).T
    assert noise.toarray() == pytest.approx(0, abs=1e-5)
    assert EmptyCells.of(["age", "sex"], tables) is None


@pytest.mark.parametrize(("text", "logistic"), RULED_MODELS)
def test_rules_that_people_break_are_not_used(text, logistic):
    """Most of the young work, far beyond the noise. With the rule two models have no solution."""
    broken, _, _ = people_table(moves=True, rules=[RULE])
    free, _, _ = people_table(moves=True)
    fit, expected = (regress(tables, text, logistic=logistic) for tables in (broken, free))
    assert BROKEN in fit.notes
    assert fit.coefficients == expected.coefficients


REFUSED = [
    ("sex=f ~ age:sex", False, "'sex' stands on both sides of ~"),
    ("income ~ age", False, "'income' is no column; there are age, sex, work"),
    ("work ~ age", False, "'work' has words as values; write an indicator, such as work=full"),
    ("work ~ age", True, "'work' has 4 values; a logistic model needs an indicator"),
    ("sex=x ~ age", False, "'x' is no value of sex; they are f, m"),
    ("sex=f ~ age + age", False, "'age=30-39' stands twice"),
    ("sex=f ~ age age", False, "'age age' is no column"),
    ("sex=f ~ age - work", False, "'age - work' is no column"),
    ("sex=f ~", False, "write columns as terms, such as"),
    ("sex=f", False, "write OUTCOME ~ TERM + TERM, such as"),
    ("sex=f ~ age ~ work", False, "write OUTCOME ~ TERM + TERM, such as"),
    ("sex=f ~ 1", False, "write columns as terms, such as"),
    ("sex=f ~ age:age", False, "'age' stands twice in a term"),
    ("sex=f ~ factor(age", False, "write factor(age)"),
    ("sex=f|m ~ age", False, "'sex=f|m' is the same for everybody; write what varies"),
    ("sex=m|f ~ age", True, "'sex=f|m' is the same for everybody; write what varies"),
    ("sex=f ~ work=none|some|half|full", False, "is the same for everybody; write what varies"),
    ("factor(age) ~ sex", False, "write one column or indicator before ~"),
]


@pytest.mark.parametrize(("text", "logistic", "reason"), REFUSED)
def test_a_formula_that_is_none_is_one_line(text, logistic, reason):
    tables, _, _ = people_table()
    with pytest.raises(UserError) as refused:
        regress(tables, text, logistic=logistic)
    (line,) = refused.value.lines
    assert line.startswith(f"formula '{text}': ")
    assert reason in line


def test_a_formula_that_is_no_text_is_one_line():
    tables, _, _ = people_table()
    with pytest.raises(UserError, match="formula: must be a text"):
        regress(tables, ["sex=f", "age"])


@pytest.mark.parametrize(
    ("ways", "text", "logistic"),
    [
        (1, "sex=f ~ age", False),
        (2, "sex=f ~ age*work", False),
        (2, "sex ~ age*work", True),
        (1, "sex ~ age", True),
    ],
)
def test_what_was_not_measured_together_is_refused_with_the_columns(ways, text, logistic):
    tables, _, _ = people_table(ways=ways)
    with pytest.raises(UserError) as refused:
        regress(tables, text, logistic=logistic)
    (line,) = refused.value.lines
    assert line.startswith("model '")
    assert line.endswith("were not measured together")


def test_a_logistic_model_needs_its_covariates_together_and_each_with_the_outcome():
    """No triple with the outcome is measured, and the fit is that of the records."""
    tables, _, _ = people_table()
    texts = tables.measurements["query"].to_pylist()
    kept = [text for text in texts if not ("sex=" in text and "," in text)]
    kept += [t for t in tables.rows_of if t.count(",") == 1 and "sex=" in t]
    rows = sorted(row for text in {*kept} for row in tables.rows_of[text])
    tables = replace(tables, measurements=tables.measurements.take(rows))
    fit = regress(tables, "sex ~ age + work", logistic=True)
    for c in fit.coefficients:
        assert c.estimate == pytest.approx(c.naive[0], abs=1e-7)
    with pytest.raises(UserError, match="age, sex and work were not measured together"):
        regress(tables, "sex ~ age*work", logistic=True)


@pytest.mark.parametrize(("text", "logistic"), [(LINEAR[0], False), (LOGISTIC[0], True)])
def test_noise_that_hides_a_term_is_refused(text, logistic):
    tables, _, _ = people_table()
    vars(tables)["variances"] = 3e4 * tables.variances
    with pytest.raises(UserError, match="noise") as refused:
        regress(tables, text, logistic=logistic)
    assert len(refused.value.lines) == 1


def answered_table(absent):
    """People of whom a share is absent in `age`, which is a number, without noise."""
    text = PEOPLE_TEXT.replace('["0-29", "30-39", "40+"]', "[20, 30, 50]")
    text = text.replace('missing = "0-29"', 'missing = "absent"')
    study, release = declared(text)
    rng = np.random.default_rng(4)
    ages = np.where(rng.random(300) < absent, 3, rng.integers(0, 3, 300))
    codes = np.stack([ages, rng.integers(0, 2, 300), rng.integers(0, 4, 300)], 1)
    people = People(study_people(study, release), codes)
    residuals = all_residuals(people.domain, 3, 1000)
    rows = []
    for own in residuals.sets:
        if own or people.domain.moves:
            texts = residuals.texts(residuals.rows([residuals.numbers[own]]))
            values = residual(people, own).ravel()
            rows += [(t, int(v), 4.0) for t, v in zip(texts, values, strict=True)]
    names = column_values(study, release)
    return published(study, release, {"people": coded_people(names["people"], codes)}, rows), codes


def test_people_without_an_answer_are_left_out_if_that_is_measured():
    tables, codes = answered_table(absent=0.3)
    fit = regress(tables, "age ~ sex + work=full")
    present = codes[:, 0] < 3
    x = np.stack([np.ones(300), codes[:, 1] == 1, codes[:, 2] == 3], 1)[present]
    y = np.array([20, 30, 50, 0])[codes[present, 0]]
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    assert [c.estimate for c in fit.coefficients] == pytest.approx(expected.tolist())
    assert fit.people == pytest.approx(present.sum())
    assert fit.notes == ("people without an answer to age are left out",)


def test_a_few_people_without_an_answer_have_the_mean():
    tables, codes = answered_table(absent=0.0)
    codes = tables.columns["people"]["age"]
    assert str(codes[-1]) == "absent"
    fit = regress(tables, "sex=m ~ age")
    assert fit.notes == ("few or no people have no answer to age: they have the mean",)
    for c in fit.coefficients:
        assert c.estimate == pytest.approx(c.naive[0])


def test_households_answer_from_their_measured_marginals():
    tables = groups_table(every_pair)
    names = tables.names["people"]
    values = [str(v) for v in tables.columns["people"][names[0]]]
    fit = regress(tables, f"{names[0]}={values[0]} ~ factor({names[1]})")
    for c in fit.coefficients:
        assert c.estimate == pytest.approx(c.naive[0], abs=1e-6)


def test_terms_have_the_words_of_the_formula():
    tables, _, _ = people_table()
    model = parse_formula(" sex = f~work=full|half+age*work=none ", tables, logistic=False)
    assert model.text == "sex=f ~ work=half|full + age*work=none"
    assert [term.label for term in model.terms] == [
        "(intercept)",
        "work=half|full",
        "age=30-39",
        "age=40+",
        "work=none",
        "age=30-39:work=none",
        "age=40+:work=none",
    ]
    assert model.covariates == ("age", "work")


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("terms", ["age=0-29 + age", "work + work=full|half"])
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_terms_that_determine_one_another_are_refused(terms, logistic, noise):
    tables, _, _ = people_table(noise=noise, moves=True)
    with pytest.raises(UserError) as refused:
        regress(tables, f"sex=f ~ {terms}", logistic=logistic)
    (line,) = refused.value.lines
    assert "terms determine one another" in line
