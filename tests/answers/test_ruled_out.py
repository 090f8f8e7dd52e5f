"""What structural rules of a table say: excluded queries are 0, and empty cells lower errors."""

from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
import pytest
import scipy
from kit.data_sets import people_table, published
from kit.studies import attribute, small_study

from stream_dp.answers.tables.conjunction import matching_rows, parse_conjunction
from stream_dp.answers.tables.ruled_out import GIVEN_RULES, excluding_rules
from stream_dp.answers.tables.table_answer import Conjunctions, table_answers
from stream_dp.release.published_tables import binned, coded_people, column_values
from stream_dp.release.row_rules import rows_keep_rules
from stream_dp.services.commands.estimate import answer_lines

RULE = "age = 0-29 -> work = none"
EXCLUDED = ["age=0-29 & work=some", "work=half|full & age=0-29 & sex=f"]
OTHERS = ["age=0-29 & work=none", "age=0-29|30-39 & work=some", "age=0-29", "work=some|half"]


def possible_rows():
    """A published table with each row that keeps its rules, once, and no measurement."""
    attributes = {
        "age": attribute([10, 15, 16, 40], missing="absent"),
        "married": attribute(["no", "yes"], missing="absent"),
        "pay": {"number": {"least": 0, "most": 90, "step": 10}, "bins": [30, 60]}
        | {"special": [-9], "missing": 0},
        "state": attribute(["single", "couple"], missing="absent"),
    }
    state = {"no": "single", "yes": "couple", "absent": "absent"}
    release = {"name": "p", "kind": "table", "attributes": [*attributes], "rho": 1, "every": 1}
    release["rules"] = ["age < 16 -> married = no", "pay >= 60 -> married = yes", "pay <= 80"]
    release["derived"] = {"state": {"of": "married", "values": state}}
    study = small_study(rho=3, attributes=attributes, releases=[release])
    (declared,) = study.batches
    symbols = column_values(study, declared)
    people = symbols["people"]
    rows = np.array([*product(*(range(len(values)) for values in people.values()))])
    kept = [
        rows_keep_rules(declared.column_rules, people, coded_people(people, row[None]))
        for row in rows
    ]
    exact = {"people": coded_people(people, rows[kept])}
    columns, tables = binned(symbols, exact)
    return replace(
        published(study, declared, tables, []),
        columns=columns,
        numbers={"pay": people["pay"]},
        number_codes={"pay": exact["people"]["pay"].to_numpy().astype(np.int64)},
    )


YOUNG, RICH, MOST = "age < 16 -> married = no", "pay >= 60 -> married = yes", "pay <= 80"
STATE = "state follows from married"


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("age=10 & married=yes", [YOUNG]),
        ("age=10|15 & married=yes & pay > 10", [YOUNG]),
        ("pay > 50 & married=no", [RICH]),
        ("3*pay >= 180 & married=no", [RICH]),
        ("pay > 80", [MOST]),
        ("married=yes & state=single|absent", [STATE]),
        ("age=10 & state=couple", [YOUNG, STATE]),
        ("age=10|15 & state=couple & pay <= 50", [YOUNG, STATE]),
        ("pay > 50 & state=single", [RICH, STATE]),
        ("pay > 50 & age=10 & married=yes|no", [YOUNG, RICH]),
        ("pay > 50 & age=10 & state=single|couple", [YOUNG, RICH, STATE]),
        ("pay > 80 & age=10 & married=yes|no", [MOST]),
        ("age=10 & married=yes|absent", []),
        ("age=15|16 & married=yes", []),
        ("pay >= 50 & married=no", []),
        ("pay <= 50 & married=no", []),
        ("pay=-9 & married=no", []),
        ("married=yes", []),
        ("pay >= 60 & state=couple", []),
        ("pay > 50 & age=10", []),
        ("age=10 & state=single|absent", []),
    ],
)
def test_a_query_is_excluded_if_no_row_that_keeps_the_rules_meets_it(query, rules):
    tables = possible_rows()
    parsed = parse_conjunction(query, tables)
    assert [rule.text for rule in excluding_rules(parsed, tables)] == rules
    assert (matching_rows(parsed, tables) == 0) == bool(rules)
    answer = Conjunctions(tables).answer(query, count=True)
    if not rules:
        assert answer.standard_error is None
        return
    assert (answer.value, answer.standard_error, answer.interval) == (0, 0, (0, 0))
    texts = " and ".join(f"'{rule}'" for rule in rules)
    assert f"0 by the declared {'rule' if len(rules) == 1 else 'rules'} {texts}," in answer.method
    assert any(texts in line for line in answer_lines(answer))
    assert Conjunctions(tables).answer(query, count=False).interval == (0, 0)


@pytest.mark.parametrize("moves", [False, True])
def test_where_people_break_rules_others_have_the_answers_of_a_table_without(moves):
    tables, _, _ = people_table(1.0, moves=moves, rules=[RULE])
    free, _, _ = people_table(1.0, moves=moves)
    for query, count in product(OTHERS, (False, True)):
        expected = Conjunctions(free).answer(query, count=count)
        assert Conjunctions(tables).answer(query, count=count) == expected
        assert expected.standard_error > 0
    for query, count in product(EXCLUDED, (False, True)):
        answer, before = (Conjunctions(t).answer(query, count=count) for t in (tables, free))
        assert (answer.value, answer.standard_error, answer.interval) == (0, 0, (0, 0))
        assert before.value > 0
    joint = Conjunctions(tables).joint([EXCLUDED[0], OTHERS[0]], count=False)
    assert joint.values[0] == joint.standard_errors[0] == joint.covariance[0, 1] == 0
    assert joint.values[1] == pytest.approx(Conjunctions(free).answer(OTHERS[0], count=False).value)
    rows = {row["query"]: row["standard_error"] for row in table_answers(tables, "").to_pylist()}
    zeros = {query for query, error in rows.items() if error == 0}
    assert zeros == {f"age=0-29 & work={work}" for work in ("some", "half", "full")}


SIZES = 3, 2, 4  # values of age, sex and work


def on_cells(columns, of_column):
    """(rows, 24) rows on the cells of all columns: products of those on each column's values."""
    factors = [of_column(n) if c in columns else np.ones((1, n)) for c, n in enumerate(SIZES)]
    return reduce(np.kron, factors)


def best_unbiased(tables, residuals, weights, *, public):
    """The estimate of a weighted sum of all cells, and its variance, by generalised least squares.

    The cells of the young who work are 0, and the number of people is known if it is public.
    """
    order = [a for a in residuals.sets if a or not public] + [(0, 1)]
    rows = np.vstack([on_cells(a, lambda n: n * np.eye(n) - 1) for a in order])
    precisions = 1 / tables.variances
    young_at_work = np.zeros(SIZES)
    young_at_work[0, :, 1:] = 1
    zeros = np.eye(24)[young_at_work.ravel() > 0]
    known = np.vstack([zeros, np.ones((int(public), 24))])
    some, free = np.zeros(24), scipy.linalg.null_space(known)
    some[-1] = 300.0 * public
    design = rows @ free
    inverse = np.linalg.pinv((design.T * precisions) @ design)
    fitted = inverse @ (design.T * precisions) @ (tables.values - rows @ some)
    on_free = weights @ free
    return float(weights @ some + on_free @ fitted), float(on_free @ inverse @ on_free)


GIVEN = {
    "age=0-29 & work=none": ((0,), (0, 1), (0,)),
    "age=30-39 & work=some|half": ((1,), (0, 1), (1, 2)),
    "sex=f & work=full": ((0, 1, 2), (0,), (3,)),
    "age=40+": ((2,), (0, 1), (0, 1, 2, 3)),
    "work=some": ((0, 1, 2), (0, 1), (1,)),
}


@pytest.mark.parametrize("public", [False, True])
def test_answers_are_the_best_unbiased_ones_given_that_excluded_cells_are_empty(public):
    options = {"moves": not public, "ways": 2, "again": [(0, 1)], "kept": True}
    tables, residuals, _ = people_table(1.0, rules=[RULE], **options)
    free, _, _ = people_table(1.0, **options)
    for query, chosen in GIVEN.items():
        answer, before = (Conjunctions(t).answer(query, count=True) for t in (tables, free))
        weights = np.zeros(SIZES)
        weights[np.ix_(*chosen)] = 1
        value, variance = best_unbiased(tables, residuals, weights.ravel(), public=public)
        assert answer.value == pytest.approx(value, abs=1e-4)
        assert answer.standard_error == pytest.approx(variance**0.5, rel=1e-6)
        assert answer.standard_error < before.standard_error
        assert GIVEN_RULES in answer.method
        assert GIVEN_RULES not in before.method
        ruled, unruled = (Conjunctions(t).answer(query, count=False) for t in (tables, free))
        assert ruled.standard_error < unruled.standard_error
    joint = Conjunctions(tables).joint(["age=0-29", "age=0-29 & work=none"], count=True)
    assert joint.values[0] == pytest.approx(joint.values[1], abs=1e-4)
