"""Linear thresholds of published tables: against brute force, and what their errors are."""

from dataclasses import replace
from itertools import product
from math import nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.data_sets import every_pair, groups_table, people_table, published
from kit.studies import attribute, small_study

from stream_dp.answers.tables.conjunction import example_conjunctions, parse_conjunction
from stream_dp.answers.tables.linear_thresholds import reduced
from stream_dp.answers.tables.people_counts import count_weights
from stream_dp.answers.tables.regression import regress
from stream_dp.answers.tables.table_answer import LINEAR, NO_ERROR, NOT_MEASURED, Conjunctions
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.projections import declared_projections, linear_residuals, widened
from stream_dp.batch.people.residual_counts import residual
from stream_dp.errors import UserError
from stream_dp.release.published_tables import binned, coded_people, column_values
from stream_dp.study import Numbers, Scale

PEOPLE = 400
ATTRIBUTES = {
    "sex": attribute(["f", "m"], missing="f"),
    "n-1": {
        **{"number": {"least": -20, "most": 20, "step": 2}, "bins": [0, 6]},
        **{"special": [-99], "missing": "absent"},
    },
    "pay": {"number": {"least": 0, "most": 90, "step": 10}, "bins": [30, 60], "missing": 0},
}
ABSENT_CODE = 22  # of n-1, behind its numbers and its special code
SUMS = [
    {"weights": {"pay": -2, "n-1": 6}, "thresholds": [-60, -20, 20]},
    {"weights": {"pay": 1}, "thresholds": [40]},
]


def table(noise=0.0, *, moves=False, labels=True, seed=1, linear=SUMS):
    """A table that is the truth, and what `rap` publishes of it."""
    release = {"name": "p", "kind": "rap", "attributes": list(ATTRIBUTES), "rho": 1, "every": 1}
    study = small_study(
        neighbours="add_remove" if moves else "replace_one",
        size=None if moves else PEOPLE,
        rho=3,
        attributes=ATTRIBUTES,
        releases=[release | {"linear": linear} | ({"labels": ["sex"]} if labels else {})],
    )
    (declared,) = study.batches
    domain = study_people(study, declared)
    rng = np.random.default_rng(seed)
    people = People.of_answers(domain, rng.integers(0, [2, 23, 10], (PEOPLE, 3)))
    residuals = linear_residuals(domain, declared)
    wide = widened(residuals.domain, people, declared_projections(domain, declared))
    rows = []
    for number, own in enumerate(residuals.sets):
        if not own and not moves:
            continue
        values, variance = residual(wide, own).ravel(), 30.0 + 5 * number
        values = values + (noise * rng.normal(0, variance**0.5, values.size)).astype(int)
        texts = residuals.texts(residuals.rows([number]))
        rows += [(t, int(v), variance) for t, v in zip(texts, values, strict=True)]
    known = column_values(study, declared)
    exact = {"people": coded_people(known["people"], people.answers)}
    columns, tables = binned(known, exact)
    numbers = {name: v for name, v in known["people"].items() if isinstance(v, Numbers)}
    codes = {name: exact["people"][name].to_numpy().astype(np.int64) for name in numbers}
    answers = replace(
        published(study, declared, tables, rows),
        columns=columns,
        numbers=numbers,
        number_codes=codes,
    )
    return answers, people


def true_count(people, wanted):
    """Over everybody; wanted: of sex, n-1 and pay. Who is absent, or has a special code, is nan, on
    no side of anything."""
    rows = people.answers.tolist()
    return sum(wanted("fm"[s], nan if n > 20 else 2 * n - 20, 10 * p) for s, n, p in rows)


# A query, its shortest words, and whom it counts.
MEASURED = [
    ("6*n-1 - 2*pay <= -60", "3*n-1-pay <= -30", lambda s, n, p: 3 * n - p <= -30),
    ("3*n-1-pay > -10", "3*n-1-pay > -10", lambda s, n, p: 3 * n - p > -10),
    ("pay-3*n-1 < -10", "3*n-1-pay > 10", lambda s, n, p: p - 3 * n < -10),
    ("pay - 3*n-1 >= 10", "3*n-1-pay <= -10", lambda s, n, p: p - 3 * n >= 10),
    (
        "3*n-1-pay<=-10 & sex=m",
        "3*n-1-pay <= -10 & sex=m",
        lambda s, n, p: 3 * n - p <= -10 and s == "m",
    ),
    ("pay <= 40", "pay <= 40", lambda s, n, p: p <= 40),
    ("pay=-3..40", "pay <= 40", lambda s, n, p: p <= 40),
    ("n-1=-1..5", "n-1 > -2 & n-1 <= 4", lambda s, n, p: -1 <= n <= 5),
    ("pay < 59", "pay <= 50", lambda s, n, p: p <= 50),
    ("2*pay >= 60", "pay > 20", lambda s, n, p: p >= 30),
    ("-3*pay < -60", "pay > 20", lambda s, n, p: p > 20),
    ("n-1 > -1", "n-1 > -2", lambda s, n, p: n > -1),
    ("n-1 <= 5 & n-1 > -2", "n-1 <= 4 & n-1 > -2", lambda s, n, p: -2 < n <= 5),
    ("n-1=0..4 & n-1 <= 5", "n-1=0..4 & n-1 <= 4", lambda s, n, p: 0 <= n <= 4),
    ("pay > 20 & n-1 <= -1", "pay > 20 & n-1 <= -2", lambda s, n, p: p > 20 and n <= -1),
]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(("query", "text", "wanted"), MEASURED)
def test_without_noise_they_count_as_brute_force_does(query, text, wanted, moves):
    tables, people = table(moves=moves)
    answer = Conjunctions(tables).answer(query, count=True)
    assert (answer.query, answer.method) == (text, LINEAR)
    assert answer.synthetic == true_count(people, wanted) > 0
    assert answer.value == pytest.approx(answer.synthetic, abs=1e-9)
    share = Conjunctions(tables).answer(query, count=False)
    base = PEOPLE
    if " n-1 " in f" {text} ".replace("=", " "):  # whoever is absent in a number did not answer
        base = (people.answers[:, 1] != ABSENT_CODE).sum()
    assert share.value == pytest.approx(answer.synthetic / base)
    again = Conjunctions(tables).answer(answer.query, count=True)
    assert again == answer


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("query", [query for query, *_ in MEASURED])
def test_the_error_is_that_of_the_measurements_it_is_made_of(query, moves):
    """How the answer moves with each measurement, by differences, and their variances."""
    tables, _ = table(1.0, moves=moves)
    answer = Conjunctions(tables).answer(query, count=True)
    rows, variance, bias = tables.measurements.to_pylist(), 0.0, answer.value
    truth, _ = table(moves=moves)
    for place, row in enumerate(rows):
        values = [r["value"] + (i == place) for i, r in enumerate(rows)]
        moved = tables.measurements.set_column(1, "value", pa.array(values, pa.int64()))
        other = Conjunctions(replace(tables, measurements=moved)).answer(query, count=True)
        weight = other.value - answer.value
        variance += (weight * row["standard_error"]) ** 2
        bias -= weight * (row["value"] - truth.measurements["value"][place].as_py())
    assert answer.standard_error == pytest.approx(variance**0.5)
    assert bias == pytest.approx(answer.synthetic)


def test_of_two_histograms_the_more_precise_answers():
    """20 is where a bin of pay ends, and where a histogram of 5*pay is cut."""
    more = [*SUMS, {"weights": {"pay": 5}, "thresholds": [100]}]
    tables, _ = table(1.0, linear=more)
    answer = Conjunctions(tables).answer("pay <= 20", count=True)
    query = parse_conjunction("pay <= 20", tables)
    each = [count_weights(one, tables) for one in query.measurable(tables)]
    errors = [weights.covariance(weights, tables) ** 0.5 for weights in each]
    assert len(set(errors)) == 2
    assert answer.standard_error == min(errors)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("3*n-1-pay <= 0", NOT_MEASURED),  # another threshold
        ("n-1-pay <= 0", NOT_MEASURED),  # another sum
        ("3*n-1-pay <= -10 & pay=0..20", NOT_MEASURED),  # never measured together
        ("pay <= 10", "pay <= 10 divides the bin 0..20; the nearest to divide none: pay <= 20"),
        (
            "n-1=-10..4",
            "n-1 > -12 divides the bin -20..-2; the nearest to divide none: n-1 > -2",
        ),
        (
            "n-1=0..3",
            "n-1 <= 2 divides the bin 0..4; the nearest to divide none: n-1 <= -2, n-1 <= 4",
        ),
        (
            "sex=m among pay >= 70",
            "pay > 60 divides the bin 60..90; the nearest to divide none: pay > 50",
        ),
    ],
)
def test_what_is_not_measured_is_the_records_own_answer_and_says_why(query, why):
    tables, _ = table(1.0)
    answer = Conjunctions(tables).answer(query, count=True)
    assert (answer.method, answer.standard_error, answer.interval) == (NO_ERROR, None, None)
    assert (answer.value, answer.reason) == (answer.synthetic, why)
    assert answer.value > 0
    with pytest.raises(UserError) as refused:
        Conjunctions(tables).joint([query], count=True)
    assert refused.value.lines == (f"query '{answer.query}': {why}",)


@pytest.mark.parametrize("moves", [False, True])
def test_a_special_code_is_a_value_of_its_own(moves):
    tables, people = table(moves=moves)
    answer = Conjunctions(tables).answer("n-1=-99 & sex=m", count=True)
    codes = people.answers[:, [1, 0]].tolist()
    assert answer.value == pytest.approx(codes.count([21, 1]))
    assert answer.synthetic == codes.count([21, 1]) > 0


@pytest.mark.parametrize("moves", [False, True])
def test_a_model_of_numbers_leaves_out_special_codes(moves):
    tables, people = table(moves=moves)
    fit = regress(tables, "pay ~ n-1 + sex", logistic=False)
    assert fit.people == pytest.approx((people.answers[:, 1] <= 20).sum())
    for c in fit.coefficients:
        assert c.estimate == pytest.approx(c.naive[0], abs=1e-7)
    assert any("special codes of n-1 are no numbers" in note for note in fit.notes)
    by_value = regress(tables, "pay ~ factor(n-1)", logistic=False)
    assert "n-1=-99" in [c.term for c in by_value.coefficients]
    assert by_value.people == pytest.approx((people.answers[:, 1] <= 21).sum())


def test_without_labels_a_sum_with_a_value_has_no_error():
    tables, _ = table(1.0, labels=False)
    answers = Conjunctions(tables)
    assert answers.answer("3*n-1-pay <= -10 & sex=m", count=True).method == NO_ERROR
    assert answers.answer("3*n-1-pay <= -10", count=True).method == LINEAR


def test_answers_together_share_their_noise():
    """Up to a sum and above it are all who have one: the covariance says so."""
    tables, _ = table(1.0, moves=True)
    queries = ["3*n-1-pay <= -10", "3*n-1-pay > -10", "n-1=absent", "pay <= 40"]
    together = Conjunctions(tables).joint(queries, count=True)
    alone = [Conjunctions(tables).answer(query, count=True) for query in queries]
    assert together.values == pytest.approx([one.value for one in alone])
    assert together.standard_errors == pytest.approx([one.standard_error for one in alone])
    assert together.covariance[0, 1] != 0


SEX = "'sex' has listed values: write some of them, such as 'sex=A|B'; numbers are n-1, pay"
REFUSED = [
    ("pay=40", "pay was counted in bins: '40' is in pay=30..50"),
    ("pay=95", "'95' is no value of pay; they are"),
    ("pay=77..5", "'77..5' is no value of pay; they are"),
    ("sex <= 3", SEX),
    ("2*pay + sex <= 3", SEX),
    ("2*sex-pay <= 3", SEX),
    ("pya <= 3", "'pya' is no column; numbers are n-1, pay; did you mean 'pay'?"),
    ("pay <= many", "write a whole number after <=, not 'many'"),
    ("pay <= 3.5", "write a whole number after <=, not '3.5'"),
    ("pay <=", "write a whole number after <=, not ''"),
    ("<= 3", "write a sum of numbers, such as 2*n-1-pay"),
    ("2*3*pay <= 3", "write a sum of numbers, such as 2*n-1-pay"),
    ("pay pay <= 3", "write a sum of numbers, such as 2*n-1-pay"),
    ("1.5*pay <= 3", "write a sum of numbers, such as 2*n-1-pay"),
    ("pay+2*pay <= 3", "'pay' stands twice in the sum"),
    ("0*pay <= 3", "'pay' has the weight 0; leave it out"),
    ("pay <= 90", "'pay' is from 0 to 90; compare it with what is between"),
    ("pay > 90", "'pay' is from 0 to 90; compare it with what is between"),
    ("pay < 0", "'pay' is from 0 to 90; compare it with what is between"),
    ("pay-n-1 > 111", "'pay-n-1' is from -20 to 110; compare it with what is between"),
    ("9007199254740992*pay <= 3", "the sum may be over 9,007,199,254,740,992"),
]


@pytest.mark.parametrize(("query", "words"), REFUSED)
def test_mistakes_are_one_line(query, words):
    tables, _ = table()
    with pytest.raises(UserError) as refused:
        Conjunctions(tables).answer(query, count=True)
    (line,) = refused.value.lines
    assert line.startswith(f"query '{query}': {words}")


@pytest.mark.parametrize("build", [lambda: groups_table(every_pair), lambda: people_table()[0]])
def test_tables_without_numbers_refuse_them(build):
    tables = build()
    with pytest.raises(UserError, match="only numbers are compared, and no column is a number"):
        Conjunctions(tables).answer("work <= 1", count=True)


def test_a_listed_value_with_a_sign_is_a_value():
    tables, *_ = people_table()
    ages = ("<30", "30-39", ">=40")
    named = replace(tables, columns={"people": {**tables.columns["people"], "age": ages}})
    answer = Conjunctions(named).answer("age=<30|>=40", count=True)
    assert answer.query == "age=<30|>=40"


def test_an_example_is_measured():
    tables, _ = table(1.0)
    *_, example = example_conjunctions(tables)
    assert example == "pay <= 40"
    assert Conjunctions(tables).answer(example, count=True).method == LINEAR
    only, _ = table(1.0, linear=SUMS[:1])
    *_, example = example_conjunctions(only)
    assert example == "3*n-1-pay <= -10"


@settings(deadline=None)
@given(
    st.tuples(st.integers(-5, 5), st.integers(-5, 5)).filter(lambda w: w != (0, 0)),
    st.integers(-60, 60),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_every_threshold_has_one_form(own, at_most, first, second, times):
    scales = {
        "a": Scale(least=-2 * first, most=3 * first, step=first),
        "b": Scale(least=0, most=4 * second, step=second),
    }
    numbers = {name: Numbers(scale) for name, scale in scales.items()}
    weights = {name: w for name, w in zip("ab", own, strict=True) if w}
    form = reduced(weights, at_most, numbers)
    assert form.weights[0][1] > 0
    scaled = reduced({n: w * times for n, w in weights.items()}, at_most * times, numbers)
    assert scaled == form
    for a, b in product(scales["a"].points, scales["b"].points):
        value = {"a": a, "b": b}
        total = sum(w * value[name] for name, w in form.weights)
        side = total > form.bound if form.exceeds else total <= form.bound
        assert side == (sum(w * value[name] for name, w in weights.items()) <= at_most)


def test_a_range_over_the_whole_scale_is_everybody_who_has_a_number():
    tables, people = table()
    answer = Conjunctions(tables).answer("n-1=-20..20", count=True)
    assert answer.synthetic == (people.answers[:, 1] < 21).sum()
    assert answer.value == pytest.approx(answer.synthetic)


@pytest.mark.parametrize("words", ["", " among respondents", " among everybody"])
def test_a_bound_that_only_a_histogram_of_its_own_measures_has_an_error(words):
    """The number's bins and that histogram were not measured together."""
    tables, _ = table(linear=[{"weights": {"n-1": 1}, "thresholds": [2]}])
    answer = Conjunctions(tables).answer(f"n-1 <= 2{words}", count=False)
    assert answer.standard_error > 0
    assert answer.people == ("among respondents" if "everybody" not in words else "people")
