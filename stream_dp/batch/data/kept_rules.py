"""Groups that break structural rules, counted as a reader would."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.structural_rules import CHILD, HEAD, RULE_ROLES, SPOUSE, Rule, Variable
from stream_dp.study.structural_rules import column_numbers as read_numbers

from .domain import Domain, Hierarchy

_LOWEST, _HIGHEST = -(1 << 62), 1 << 62  # stand for a number that nobody has


def numbers_by_code(domain: Domain, column: int) -> tuple[int | None, ...] | None:
    """The number of every code of a person column, None for the code of 'absent'.

    None instead of the tuple for a column of texts.
    """
    return read_numbers(domain.person[column].values)


def column_numbers(domain: Domain, column: int) -> tuple[int | None, ...]:
    """The number of every code of a person column, None for the code of 'absent'."""
    numbers = numbers_by_code(domain, column)
    assert numbers is not None, "rules are about whole numbers"
    return numbers


def groups_that_break(hierarchy: Hierarchy, rule: Rule) -> NDArray[np.bool_]:
    """(G,) whether each group breaks the rule low + gap <= high for some pair of members.

    A group breaks it exactly if its largest low + gap is above its smallest high. A missing
    variable is 0. Confidential, unless the groups are synthetic.
    """
    largest_low = np.full(hierarchy.G, _LOWEST if rule.low is not None else rule.gap)
    smallest_high = np.full(hierarchy.G, _HIGHEST if rule.high is not None else 0)
    if rule.low is not None:
        group, number = _numbers(hierarchy, rule.low)
        np.maximum.at(largest_low, group, number + rule.gap)
    if rule.high is not None:
        group, number = _numbers(hierarchy, rule.high)
        np.minimum.at(smallest_high, group, number)
    return largest_low > smallest_high


def _numbers(
    hierarchy: Hierarchy, variable: Variable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) the group and (n,) the number of every member with the variable's role and a number."""
    domain = hierarchy.domain
    column = [c.name for c in domain.person].index(variable.column)
    numbers = column_numbers(domain, column)
    has_number = np.array([n is not None for n in numbers])
    by_code = np.array([n if n is not None else 0 for n in numbers], np.int64)
    codes = hierarchy.people[:, column]
    role = hierarchy.people[:, domain.role_column]
    named = dict(zip((HEAD, SPOUSE, CHILD), domain.role_codes, strict=True))
    if variable.role in named:
        member = role == named[variable.role]
    else:
        assert variable.role == RULE_ROLES[-1]
        member = ~np.isin(role, domain.role_codes)
    rows = np.flatnonzero(member & has_number[codes])
    return hierarchy.group_of[rows], by_code[codes[rows]]
