"""What structural rules of a table say about counts of people.

Rules are public declarations about the world. So the answer to a query is 0, without error and
without cost, if no row with the query's values keeps the rules. Reports that break the rules, such
as misprints, are left out of such an answer.

Any other answer is the best linear unbiased estimate given that the cells which rules exclude are
empty (`joint_sums.EmptyCells`). If that moves the answer by more than its noise explains, reports
break the rules, and the answer does without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stream_dp.study.column_rules import ColumnRule

from .conjunction import Conjunction
from .joint_sums import EmptyCells, JointSums, moved_too_far
from .possible_rows import Ranges, possible, restricted
from .table_facts import PublishedTables, Weights

GIVEN_RULES = "cells that the declared rules exclude count as empty"


def excluding_rules(query: Conjunction, published: PublishedTables) -> tuple[ColumnRule, ...]:
    """Rules that no person of a query can keep together, each of them needed; () without such.

    A column that the query does not name may have any value. Of a sum of several numbers it counts
    alone that they are numbers.
    """
    if published.link is not None or not published.declared.column_rules:
        return ()
    named = {name for threshold in query.linear for name, _ in threshold.weights}
    ruled = published.possible_rows.cells
    columns = [name for name in ruled if name in named or name in query.of("people")]
    return published.possible_rows.excluding(
        {name: _ranges(name, query, published) for name in columns}
    )


def ruled_out_text(rules: Sequence[ColumnRule]) -> str:
    """The method of an answer that rules exclude, in words."""
    texts = " and ".join(f"'{rule.text}'" for rule in rules)
    rule, it = ("rule", "it") if len(rules) == 1 else ("rules", "them")
    return (
        f"0 by the declared {rule} {texts}, without noise; reports that break {it} are not counted"
    )


def _ranges(name: str, query: Conjunction, published: PublishedTables) -> Ranges:
    """The values, or parts of bins, of a column that a person of the query may have."""
    rows = published.possible_rows
    ranges = rows.ranges[name].copy()
    chosen = query.of("people").get(name, range(len(ranges)))
    ranges = restricted(ranges, np.isin(np.arange(len(ranges)), chosen))
    for threshold in query.linear:
        if name in dict(threshold.weights):
            ranges = restricted(ranges, rows.numbers[name])
        if threshold.weights == ((name, 1),):
            step = published.numbers[name].scale.step
            side, limit = (0, np.maximum) if threshold.exceeds else (1, np.minimum)
            bound = threshold.bound + step if threshold.exceeds else threshold.bound
            ranges[:, side] = limit(ranges[:, side], bound)
            ranges = restricted(ranges, possible(ranges))
    return ranges


def given_rules(answer: Weights, published: PublishedTables) -> Weights:
    """The best linear unbiased answer if the cells that rules exclude are empty.

    The answer itself if these cells say nothing of it, or if people break the rules.
    """
    empty = _empty_cells(published)
    if empty is None:
        return answer
    sums = empty.given(JointSums.of([answer], published.values.size))
    rows, weights = sums.weights.indices.astype(np.int64), sums.weights.data
    given = Weights(rows, weights, float(sums.constants[0]), ruled=True)
    before, after = (w.covariance(w, published) for w in (answer, given))
    moved = given.value(published) - answer.value(published)
    if after >= before or moved_too_far(np.array(moved), np.array(before), np.array(after)):
        return answer
    return given


@lru_cache(maxsize=4)
def _empty_cells(published: PublishedTables) -> EmptyCells | None:
    """The empty cells of all pairs of columns of people."""
    if published.link is not None or not published.declared.column_rules:
        return None
    return EmptyCells.of(published.names["people"], published)
