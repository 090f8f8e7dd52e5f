"""Sizes from a table of counts: what is published, its errors, and what is refused."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import stream_dp
from stream_dp.batch.sizes.histogram import Sizes
from stream_dp.batch.sizes.size_estimates import METHODS
from stream_dp.errors import UserError
from stream_dp.release.answer import MeasuredRegion
from stream_dp.study.place_releases import geometric_cost

COUNTS = pa.table(
    {
        "state": ["n", "n", "n", "s", "s", "s"],
        "county": [1, 1, 2, 1, 1, 3],
        "size": [0, 2, 1, 4, 5, 0],
        "groups": [30, 20, 5, 1, 40, 0],
    }
)


def fitted(counts=COUNTS, **keys):
    declared = {
        "regions": ["state", "county"],
        "neighbours": "add_remove",
        "largest": 8,
        "rho": "1/2",
        "simulation_seed": 1,
    }
    return stream_dp.fit_sizes(counts, **(declared | keys))


def methods(result):
    return result.levels["method"].to_pylist()


def totals(table, columns):
    groups = Counter()
    for row in table.to_pylist():
        groups[tuple(row[c] for c in columns)] += row["groups"]
    return groups


def test_every_region_has_its_public_number_of_groups_at_every_level():
    table = fitted().sizes
    assert totals(table, ["level", "state", "county"]) == {
        ("all", None, None): 96,
        ("state", "n", None): 55,
        ("state", "s", None): 41,
        ("county", "n", "1"): 50,
        ("county", "n", "2"): 5,
        ("county", "s", "1"): 41,
    }
    sizes = {
        name: totals(table.filter(pa.compute.field("level") == name), ["size"])
        for name in ("all", "state", "county")
    }
    assert sizes["all"] == sizes["state"] == sizes["county"]


def test_much_budget_gives_the_truth_and_its_measurements():
    result = fitted(rho=10**5, methods=["cumulative-squares", "sorted", "sorted"])
    leaves = result.sizes.filter(pa.compute.field("level") == "county").to_pylist()
    assert [(r["state"], r["county"], r["size"], r["groups"]) for r in leaves] == [
        ("n", "1", 0, 30),
        ("n", "1", 2, 20),
        ("n", "2", 1, 5),
        ("s", "1", 4, 1),
        ("s", "1", 5, 40),
    ]
    assert methods(result) == ["cumulative-squares", "sorted", "sorted"]
    levels = result.levels.to_pylist()
    assert [row["level"] for row in levels] == ["all", "state", "county"]
    assert [row["groups"] for row in levels] == [96] * 3
    assert [row["regions"] for row in levels] == [1, 2, 4]
    assert [row["rho"] for row in levels] == ["100000/3"] * 3
    deviations = [row["deviation"] for row in levels]
    distinct = [5, 5 / 2, 5 / 4]
    assert [row["omniscient"] for row in levels] == pytest.approx(
        [d * n for d, n in zip(deviations, distinct, strict=True)]
    )
    root = result.measurements.filter(pa.compute.field("level") == "all")
    assert root["entry"].to_pylist() == list(range(8))
    assert root["value"].to_pylist() == [30, 35, 55, 55, 56, 96, 96, 96]
    assert result.answer("size 2").synthetic == 20
    assert result.answer("at-least 4", "s").synthetic == 41
    assert result.answer("quantile 1/2", "n", "1").synthetic == 0
    assert result.answer("quantile 0.61", "n", "1").synthetic == 2
    assert result.answer("mean", "n", "2").synthetic == 1
    skewness = result.answer("skewness", "n", "1")
    expected = (1 - 2 * 0.4) / (0.4 * 0.6) ** 0.5  # of a share of .4
    assert skewness.value == pytest.approx(expected)
    assert skewness.standard_error is None
    assert "no sum" in skewness.reason


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "query", ["size 0", "size 2", "size 8", "at-least 1", "at-least 5", "at-least 0", "mean"]
)
def test_answers_are_unbiased_and_their_error_is_that_of_the_noise_in_them(method, query):
    """An answer is linear in the values: its variance is that of one times its squared weights."""
    sizes, variance = Sizes.of(np.array([0, 0, 2, 2, 2, 5, 8])), 3.5
    exact = METHODS[method].exact(sizes, 8)

    def answer(values):
        return MeasuredRegion(
            size=sizes.size,
            groups=sizes.groups,
            largest=8,
            method=method,
            values=values,
            variance=variance,
        ).answer(query)

    true = answer(exact)
    if true.standard_error is None:
        assert method == "sorted"
        assert "not numbers of groups" in true.reason
        return
    assert true.value == pytest.approx(true.synthetic)
    weights = [answer(exact + unit).value - true.value for unit in np.eye(len(exact), dtype=int)]
    assert true.standard_error == pytest.approx((variance * np.square(weights).sum()) ** 0.5)


def test_small_regions_are_measured_by_size_and_large_ones_by_counts():
    columns = {"state": ["n", "s"], "county": [1, 1], "size": [1, 1]}
    assert set(methods(fitted())) == {"sorted"}
    large = fitted(pa.table({**columns, "groups": [150, 249]}))
    assert methods(large) == ["cumulative-squares", "sorted", "sorted"]
    larger = fitted(pa.table({**columns, "groups": [150, 250]}))
    assert set(methods(larger)) == {"cumulative-squares"}


def test_sorted_sizes_tell_no_number_of_groups():
    answer = fitted().answer("size 2", "n", "1")
    assert answer.standard_error is None
    assert "not numbers of groups" in answer.reason


def test_what_it_costs():
    assert fitted(parts=[1, 2, 3]).rho == Fraction(1, 2)
    exact = geometric_cost("sorted", "add_remove", Fraction(1, 10))
    assert fitted(rho=None, epsilon="3/10").rho == 3 * exact
    result = fitted(methods=[["naive", "cumulative"], "cumulative", ["sorted", "naive"]])
    assert result.rho == Fraction(1, 2) == sum(map(Fraction, result.levels["rho"].to_pylist()))
    assert methods(result)[0] in {"naive", "cumulative"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"neighbours": "replace_in_place"}, "no secret"),
        ({"neighbours": "other"}, "add_remove, replace_one"),
        ({"largest": 0}, "from 1 to"),
        ({"largest": "8"}, "from 1 to"),
        ({"rho": 0}, "above 0"),
        ({"rho": None}, "give one of the two"),
        ({"epsilon": 1}, "give one of the two"),
        ({"rho": "much"}, "rho: write a number"),
        ({"parts": [1, 2]}, "parts: give 3"),
        ({"parts": [1, 2, 0]}, "parts: give 3"),
        ({"methods": ["sorted"]}, "methods: give 3"),
        ({"methods": ["sorted", "sorted", "best"]}, "one of sorted"),
        ({"methods": ["sorted", "sorted", []]}, "at least one method"),
        ({"methods": ["sorted", "sorted", ["naive"] * 2]}, "each once"),
        ({"rho": None, "epsilon": 1, "methods": [["sorted", "naive"]] * 3}, "needs rho"),
        ({"regions": []}, "at least one column"),
        ({"regions": ["size"]}, "reserved"),
        ({"regions": ["town"]}, "no column 'town'"),
    ],
)
def test_a_wrong_declaration_is_one_line(keys, words):
    with pytest.raises(UserError, match=words) as refused:
        fitted(**keys)
    assert len(refused.value.lines) == 1


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("size", [0, 2, 1, 4, 5, -1], "not be negative"),
        ("size", [0, 2, 1, 4, 5, None], "whole numbers"),
        ("groups", [0.5] * 6, "whole numbers"),
        ("groups", [1 << 41] * 6, "not be negative"),
        ("state", ["n"] * 5 + [None], "1 rows without 'state'"),
    ],
)
def test_a_wrong_table_is_one_line_without_values(column, values, words):
    place = COUNTS.column_names.index(column)
    with pytest.raises(UserError, match=words):
        fitted(COUNTS.set_column(place, column, pa.array(values)))
    with pytest.raises(UserError, match="no rows"):
        fitted(COUNTS.slice(0, 0))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("size", "write 'size 3'"),
        ("size 9", "up to 8"),
        ("size 1/2", "up to 8"),
        ("at-least 1/0", "is no number"),
        ("quantile 2", "between 0 and 1"),
    ],
)
def test_a_wrong_query_is_one_line(query, words):
    with pytest.raises(UserError, match=words):
        fitted().answer(query)


def test_unknown_regions_and_regions_without_groups():
    with pytest.raises(UserError, match="no such region"):
        fitted().answer("mean", "n", "9")
    assert np.isnan(fitted().answer("mean", "s", "3").synthetic)
