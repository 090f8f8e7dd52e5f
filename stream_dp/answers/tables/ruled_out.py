"""Queries about people that structural rules of the table rule out.

Rules are public declarations about the world. So the answer to a query is 0, without error and
without cost, if no row with the query's values keeps the rules. Reports that break the rules, such
as misprints, are left out of such an answer. Other answers use no rules, but for regressions
(`joint_sums.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_dp.study.column_rules import ColumnRule

from .conjunction import Conjunction
from .possible_rows import Ranges, possible, restricted
from .table_facts import PublishedTables


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
