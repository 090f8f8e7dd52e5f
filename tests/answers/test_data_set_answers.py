"""Answers about data sets: against the records without noise, and against dense least squares."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from kit.data_sets import every_pair, groups_table, people_table
from scipy.linalg import null_space

from stream_dp.answers.tables.conjunction import (
    example_conjunctions,
    matching_rows,
    parse_conjunction,
)
from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.people_counts import residual_weights
from stream_dp.answers.tables.table_answer import (
    BOUNDED,
    NO_ERROR,
    Conjunctions,
    table_answers,
)
from stream_dp.batch.groups.workload.queries import GROUP, PERSON, Marginal
from stream_dp.errors import UserError

QUERIES = [
    "sex=f",
    "age=30-39 & sex=f",
    "work=some|half",
    "age=0-29|40+ & work=none|some|full",
    "age=30-39 & sex=m & work=full",
    "age=0-29|30-39 & sex=f & work=half|full",
]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_without_noise_residuals_count_as_the_records_do(query, moves):
    tables, _, _ = people_table(moves=moves, again=[(0, 1), (1, 2)])
    answer = Conjunctions(tables).answer(query, count=True)
    assert answer.value == pytest.approx(answer.synthetic, abs=1e-9)
    assert answer.synthetic == matching_rows(parse_conjunction(query, tables), tables) > 0
    assert answer.standard_error > 0
    share = Conjunctions(tables).answer(query, count=False)
    assert share.value == pytest.approx(answer.synthetic / 300)
    assert (share.standard_error == pytest.approx(answer.standard_error / 300)) == (not moves)


@pytest.mark.parametrize("moves", [False, True])
def test_noise_of_which_the_variance_is_0_as_a_float_leaves_answers(moves):
    """As of rho = 100,000: the records' counts, without an error that can be told."""
    tables, _, _ = people_table(moves=moves, again=[(0, 1), (1, 2)])
    errors = pa.array(np.zeros(tables.measurements.num_rows))
    place = tables.measurements.column_names.index("standard_error")
    exact = tables.measurements.set_column(place, "standard_error", errors)
    tables = replace(tables, measurements=exact)
    for query in QUERIES:
        answer = Conjunctions(tables).answer(query, count=False)
        assert answer.value == pytest.approx(answer.synthetic)
        assert 0 < answer.standard_error < 1e-9


def dense(tables, residuals):
    """The rows of all measurements on the table of all columns, in the order of measurement."""
    sizes = residuals.domain.sizes
    cells = np.array(list(itertools.product(*map(range, sizes))))
    rows = {}
    for own in residuals.sets:
        matrices = [n * np.eye(n) - 1 for n in (sizes[c] for c in own)]
        place = np.zeros(len(cells), int)
        for c in own:
            place = place * sizes[c] + cells[:, c]
        joint = np.ones((1, 1))
        for matrix in matrices:
            joint = np.kron(joint, matrix)
        texts = residuals.texts(residuals.rows([residuals.numbers[own]]))
        for text, row in zip(texts, joint[:, place], strict=True):
            rows[text] = row
    return cells, np.array([rows[text] for text in tables.measurements["query"].to_pylist()])


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_with_noise_they_are_the_best_linear_unbiased_answers(query, moves):
    tables, residuals, _ = people_table(1.0, moves=moves, again=[(0, 1), (0,)])
    cells, rows = dense(tables, residuals)
    parsed = parse_conjunction(query, tables)
    wanted = np.ones(len(cells))
    for column, name in enumerate(tables.declared.attributes):
        codes = parsed.of("people").get(name)
        wanted *= 1.0 if codes is None else np.isin(cells[:, column], codes)
    # Where the number of people is public, only tables of that number are possible.
    free = np.eye(len(cells)) if moves else null_space(np.ones((1, len(cells))))
    start = np.zeros(len(cells)) if moves else np.full(len(cells), 300 / len(cells))
    roots = np.sqrt(tables.variances)
    scaled = (rows / roots[:, None]) @ free
    weights = (free.T @ wanted) @ np.linalg.pinv(scaled)
    value = wanted @ start + weights @ ((tables.values - rows @ start) / roots)
    answer = Conjunctions(tables).answer(query, count=True)
    assert answer.value == pytest.approx(value)
    assert answer.standard_error == pytest.approx(np.linalg.norm(weights))
    other = residual_weights(parse_conjunction("sex=f & work=full", tables), tables)
    own = residual_weights(parsed, tables)
    both = np.concatenate([own.rows, other.rows])
    assert np.unique(own.rows).size == own.rows.size
    all_weights = np.zeros((2, len(rows)))
    all_weights[0, own.rows], all_weights[1, other.rows] = own.weights, other.weights
    assert own.covariance(other, tables) == pytest.approx(
        all_weights[0] @ np.diag(tables.variances) @ all_weights[1]
    )
    assert both.max() < len(rows)


@pytest.mark.parametrize("moves", [False, True])
def test_answers_together_have_the_covariances_of_their_weights(moves):
    tables, _, _ = people_table(1.0, moves=moves, again=[(0, 1)])
    queries = [*QUERIES[:5], "sex=m"]
    counts = Conjunctions(tables).joint(queries, count=True)
    alone = [Conjunctions(tables).answer(query, count=True) for query in queries]
    assert counts.values == pytest.approx([one.value for one in alone])
    assert counts.standard_errors == pytest.approx([one.standard_error for one in alone])
    weights = np.zeros((len(queries), tables.values.size))
    for row, query in zip(weights, queries, strict=True):
        own = residual_weights(parse_conjunction(query, tables), tables)
        row[own.rows] = own.weights
    assert counts.covariance == pytest.approx((weights * tables.variances) @ weights.T)
    shares = Conjunctions(tables).joint(queries, count=False)
    alone = [Conjunctions(tables).answer(query, count=False) for query in queries]
    assert shares.values == pytest.approx([one.value for one in alone])
    assert shares.standard_errors == pytest.approx([one.standard_error for one in alone])
    # Women and men are everybody, whose share is certain; their number is if it is public.
    both = np.array([[1.0, 0, 0, 0, 0, 1]])
    assert shares.combined(both).standard_errors == pytest.approx([0], abs=1e-7)
    assert (counts.combined(both).standard_errors[0] > 1e-3) == moves


def test_what_is_not_measured_is_refused_among_others():
    tables, _, _ = people_table(1.0, ways=2)
    with pytest.raises(UserError, match="no measurement says"):
        Conjunctions(tables).joint([QUERIES[0], QUERIES[4]], count=True)


def test_a_triple_that_is_not_measured_is_answered_by_the_records_in_words():
    tables, _, _ = people_table(1.0, ways=2)
    answer = Conjunctions(tables).answer(QUERIES[4], count=True)
    assert answer.standard_error is None
    assert (answer.value, answer.method) == (answer.synthetic, BOUNDED)
    assert Conjunctions(tables).answer(QUERIES[1], count=True).standard_error is not None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("work=1", "people: work=1"),
        ("people: region=north & work=1", "people: region=north & work=1"),
        ("region=north", "households: region=north"),
        ("households: size=2|3", "households: size=2|3"),
        ("group: work=1", "households: work=1"),
        ("household: region=south & income=high", "households: region=south & income=high"),
        ("people: region=north, size=1", "people: region=north & size=1"),
    ],
)
def test_marginals_count_groups_and_members_as_the_records_do(query, text):
    tables = groups_table(every_pair)
    answer = Conjunctions(tables).answer(query, count=True)
    assert answer.query == text
    assert answer.value == pytest.approx(answer.synthetic) != 0
    assert answer.standard_error > 0
    share = Conjunctions(tables).answer(query, count=False)
    rows = 60 if text.startswith("households") else tables.tables["people"].num_rows
    assert share.value == pytest.approx(answer.synthetic / rows)


def test_marginals_are_averaged_by_inverse_variance_and_cells_are_added():
    def some(domain):
        return [Marginal(domain, PERSON, (0,), (1,)), Marginal(domain, PERSON, (), (0, 1))]

    tables = groups_table(some, noise=1.0)
    answer = Conjunctions(tables).answer("work=1", count=True)
    own = {row["query"]: row["value"] for row in tables.measurements.to_pylist()}
    first = sum(v for t, v in own.items() if "region" in t and "work=1" in t)
    second = sum(v for t, v in own.items() if "income" in t and "work=1" in t)
    # Two cells of variance 9, three of variance 10.
    one, two = 1 / 18, 1 / 30
    assert answer.value == pytest.approx((first * one + second * two) / (one + two))
    assert answer.standard_error == pytest.approx((one + two) ** -0.5)


def test_cells_of_groups_by_their_members_are_not_added():
    """A household may have members of both incomes, and would be counted twice."""

    def some(domain):
        return [Marginal(domain, GROUP, (0,), (0, 1)), Marginal(domain, GROUP, (), (1,))]

    tables = groups_table(some)
    ask = Conjunctions(tables).answer
    assert ask("households: work=1", count=True).standard_error == pytest.approx(10**0.5)
    both = ask("households: income=low & work=1", count=True)
    assert both.standard_error == pytest.approx(18**0.5)
    assert ask("households: income=low", count=True).method == NO_ERROR
    assert ask("households: work=0|1", count=True).method == NO_ERROR
    assert ask("households: work=0..1", count=True).query == "households: work=0|1"
    assert ask("households: work=1..9", count=True).query == "households: work=1"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("wrok=1", "did you mean 'work'?"),
        ("income=hihg", "did you mean 'high'?"),
        ("housholds: size=1", "did you mean 'households'?"),
        ("work", "write what 'work' must be"),
        ("work=1 & work=0", "'work' stands twice"),
        ("", "write values of columns"),
        ("work=1 &", "write values of columns"),
        ("people:", "write values of columns"),
        ("income=1..99999999999999999", "is no value of income"),  # at once
    ],
)
def test_a_mistake_names_the_nearest_right_word(query, words):
    tables = groups_table(every_pair)
    with pytest.raises(UserError) as refused:
        Conjunctions(tables).answer(query, count=True)
    assert words in str(refused.value)


@pytest.mark.parametrize("build", [groups_table, lambda: people_table()[0]])
def test_every_example_can_be_asked(build):
    tables = build()
    for words in example_conjunctions(tables):
        assert Conjunctions(tables).answer(words, count=True).value >= 0


@pytest.mark.parametrize("build", [lambda: groups_table(every_pair), lambda: people_table()[0]])
def test_the_tidy_table_has_what_each_question_alone_is_answered(build):
    tables = build()
    rows = table_answers(tables, "abc").to_pylist()
    assert len({(row["query"], row["measure"]) for row in rows}) == len(rows)
    assert {row["head"] for row in rows} == {"abc"}
    singles = sum(len(values) for own in tables.columns.values() for values in own.values())
    assert sum("&" not in row["query"] for row in rows) == 2 * singles
    for row in rows[::3]:
        one = Conjunctions(tables).answer(row["query"], count=row["measure"] == "count")
        default = limited_records(one)
        assert (one.query, default.value) == (row["query"], row["value"])
        assert (row["low"], row["high"]) == (default.interval or (None, None))
        assert row["unbiased"] == (None if default.unbiased is None else one.value)
