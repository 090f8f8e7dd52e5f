"""Queries about people that a structural rule of the table rules out.

Rules are public declarations about the world. So the answer to a query whose every combination of
values breaks one rule is 0, without error and without cost. Reports that break the rule, such as
misprints, are left out of such an answer. Other answers do not use rules.
"""

from __future__ import annotations

from itertools import product

from stream_dp.study.column_rules import Cell, ColumnRule

from .conjunction import Conjunction
from .linear_thresholds import LinearThreshold
from .table_facts import PublishedTables


def excluding_rule(query: Conjunction, published: PublishedTables) -> ColumnRule | None:
    """The first rule that no person of a query can keep; None without such a rule.

    Only rules between columns that the query names are looked at, each by itself.
    """
    if published.link is not None:
        return None
    named = {*query.of("people")}
    named |= {name for threshold in query.linear for name, _ in threshold.weights}
    for rule in published.declared.column_rules:
        if named.issuperset(rule.columns):
            cells = [_allowed(name, query, published) for name in rule.columns]
            if all(cells) and not any(rule.kept(*row) for row in product(*cells)):
                return rule
    return None


def _allowed(name: str, query: Conjunction, published: PublishedTables) -> list[Cell]:
    """The values, or parts of bins, of a column that a person of the query may have.

    Of thresholds only those of the column alone count.
    """
    cells = published.ruled_cells[name]
    allowed = [cells[code] for code in query.of("people").get(name, range(len(cells)))]
    for threshold in query.linear:
        if threshold.weights == ((name, 1),):
            sides = (_on_side(cell, threshold) for cell in allowed)
            allowed = [cell for cell in sides if cell is not None]
    return allowed


def _on_side(cell: Cell, threshold: LinearThreshold) -> Cell | None:
    """The part of a cell on a threshold's side of its bound; None without a number there."""
    if cell.least is None or cell.most is None:
        return None
    least = max(cell.least, threshold.bound + 1) if threshold.exceeds else cell.least
    most = cell.most if threshold.exceeds else min(cell.most, threshold.bound)
    return Cell(cell.symbol, least, most) if least <= most else None
