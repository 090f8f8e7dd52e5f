"""Whether the groups of a data set keep its release's structural rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from stream_dp.study import DataSetRelease, Study
from stream_dp.study.group_releases import KEY_COLUMN
from stream_dp.study.structural_rules import RULE_ROLES, Rule, Variable

Tables = Mapping[str, pa.Table]
Ends = dict[int, int]  # by group, the largest or the smallest number of its members with a role


def keeps_rules(study: Study, release: DataSetRelease, tables: Tables) -> bool:
    """Whether every group of a data set keeps every rule of its release.

    This is a check for readers, and so shares no code with the synthesizers.
    """
    rules = release.structural_rules
    return all(_kept(study, rule, tables["people"]) for rule in rules)


def _kept(study: Study, rule: Rule, people: pa.Table) -> bool:
    if rule.low is None:
        assert rule.high is not None
        return all(rule.gap <= high for high in _ends(study, rule.high, people, min).values())
    lows = _ends(study, rule.low, people, max)
    if rule.high is None:
        return all(low + rule.gap <= 0 for low in lows.values())
    highs = _ends(study, rule.high, people, min)
    return all(low + rule.gap <= highs[group] for group, low in lows.items() if group in highs)


def _ends(
    study: Study,
    variable: Variable,
    people: pa.Table,
    end: Callable[[Iterable[int]], int],
) -> Ends:
    """By group the largest or smallest number of the variable, over members with a number."""
    roles = study.groups.roles if study.groups is not None else None
    assert roles is not None, "rules need roles"
    named = dict(zip(RULE_ROLES, (roles.head, roles.spouse, roles.child), strict=False))
    symbols = named.get(variable.role)
    codes = [
        code
        for code, symbol in enumerate(roles.values)
        if (symbol == symbols if symbols is not None else symbol in roles.others)
    ]
    numbers = study.attributes[variable.column].symbols
    columns = (people[name].to_pylist() for name in (KEY_COLUMN, roles.column, variable.column))
    ends: Ends = {}
    for group, role, code in zip(*columns, strict=True):
        number = numbers[code]
        if role in codes and isinstance(number, int):
            ends[group] = end((ends.get(group, number), number))
    return ends
