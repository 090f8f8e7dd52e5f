"""What single columns say of a query whose columns were not measured together."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from kit.data_sets import groups_table, people_table

from stream_dp.answers.tables.conjunction import matching_rows, parse_conjunction
from stream_dp.answers.tables.table_answer import BOUNDED, NO_ERROR, Conjunctions, table_answers

QUERIES = ["age=30-39 & sex=f", "age=0-29|40+ & work=none|some|full", "age=40+ & sex=m & work=full"]


def frechet(tables, query):
    """Between which numbers the records' own marginals leave the count."""
    n = tables.tables["people"].num_rows
    counts = [matching_rows(parse_conjunction(t, tables), tables) for t in query.split(" & ")]
    return max(0, sum(counts) - (len(counts) - 1) * n), min(counts)


@pytest.mark.parametrize("query", QUERIES)
def test_ends_are_those_of_the_single_columns_at_a_smaller_level(query):
    tables, _, _ = people_table(1.0, ways=1)
    ask = Conjunctions(tables).answer
    answer = ask(query, count=True)
    assert (answer.method, answer.standard_error) == (BOUNDED, None)
    assert answer.value == answer.synthetic
    each = [ask(term, count=True) for term in query.split(" & ")]
    z = NormalDist().inv_cdf(1 - 0.05 / (len(each) + 1))
    error = sum(one.standard_error**2 for one in each) ** 0.5
    low = sum(one.value for one in each) - (len(each) - 1) * 300 - z * error
    high = min(one.value + z * one.standard_error for one in each)
    assert answer.interval == pytest.approx((max(low, 0), high))


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("query", ["age=0-29|40+ & work=none|some|full", "age=30-39 & sex=f"])
def test_whatever_the_dependence_nineteen_of_twenty_intervals_hold(query, moves, count):
    """Redrawn noise: both ends of what the true marginals leave are within."""
    tables, _, _ = people_table(moves=moves, ways=1)
    ends = np.array(frechet(tables, query)) / (1 if count else 300)
    rng, covered = np.random.default_rng(7), 0
    values, errors = tables.values, tables.measurements["standard_error"].to_numpy()
    for _ in range(200):
        noisy = pa.array(np.rint(values + rng.normal(0, 5 * errors)).astype(int))
        columns = {"query": tables.measurements["query"], "value": noisy}
        own = pa.table({**columns, "standard_error": 5 * errors})
        redrawn = replace(tables, measurements=own)
        low, high = Conjunctions(redrawn).answer(query, count=count).interval
        assert 0 <= low <= high
        covered += low <= ends[0] + 1e-9 and ends[1] <= high + 1e-9
    assert covered >= 190


def test_what_is_measured_together_has_an_error_and_groups_have_no_bounds():
    tables, _, _ = people_table(1.0, ways=2)
    ask = Conjunctions(tables).answer
    assert ask(QUERIES[0], count=True).standard_error is not None
    assert ask(QUERIES[2], count=True).method == BOUNDED
    people, _, _ = people_table(1.0, moves=True, ways=1)
    unknown = pa.array(np.where(people.values == people.values[0], 0, people.values).astype(int))
    nobody = people.measurements.set_column(1, "value", unknown)
    nobody = replace(people, measurements=nobody)
    share = Conjunctions(nobody).answer(QUERIES[0], count=False)
    assert (share.method, share.interval) == (NO_ERROR, None)
    groups = groups_table()
    answer = Conjunctions(groups).answer("households: region=north & size=2", count=True)
    assert (answer.method, answer.interval) == (NO_ERROR, None)


def test_all_estimates_have_an_interval_and_no_error_there():
    tables, _, _ = people_table(1.0, ways=1)
    rows = table_answers(tables, "head").to_pylist()
    pairs = [row for row in rows if "&" in row["query"]]
    assert {row["standard_error"] for row in pairs} == {None}
    assert all(row["low"] <= row["high"] for row in pairs)
