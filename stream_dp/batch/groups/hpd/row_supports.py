"""Supports of mixture rows under structural rules.

Members of a household are independent in a row, so a row keeps a rule low + gap <= high exactly if
its largest low and its smallest high do. A row therefore has a bound U of each low variable: the
variable is at most U, and every high variable is at least U + gap. All combinations in such a box
keep all rules. Every household that keeps the rules lies in some box: the one whose bounds are its
own numbers. A role that a row leaves out, or whose members are all 'absent' in the row, has no
bounds and frees the others.

The boxes are drawn from public declarations and a seed. The weights of the rows are fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.structural_rules import (
    CHILD,
    HEAD,
    OTHER,
    SPOUSE,
    Rule,
    Variable,
    least_solution,
)

from ...data.domain import Domain, column_numbers
from .model_arrays import Array, ModelLayout

LACKING = 0.3  # of rows, those without a role, or without a number, that rules compare


class RowSupports(NamedTuple):
    """What each of K rows may hold.

    person: bool (slots, values, K), by slot the values of all free columns.
    composition: bool (compositions, K).
    """

    person: Array
    composition: Array


def row_supports(domain: Domain, layout: ModelLayout, rows: int) -> RowSupports | None:
    """The supports of a domain's rows; None without rules. The same for the same arguments.

    Of each row are drawn: the roles that it leaves out (`absent`), the variables that are 'absent'
    in all of its members (`silent`), and a box of the rules that still bind (`binding`).
    """
    if not domain.rules:
        return None
    rng = np.random.default_rng(rows)
    variables = _ordered({v for rule in domain.rules for v in rule.variables})
    numbers = {v: _numbers(domain, v) for v in variables}
    increasing = {v: sorted(n[~np.isnan(n)].astype(int).tolist()) for v, n in numbers.items()}
    cells = {v: _cells(domain, layout, v) for v in variables}
    free = sum(layout.person_values[c] for c in layout.free_columns)
    person = np.ones((layout.slots, free, rows), np.bool_)
    composition = np.ones((len(layout.filled), rows), np.bool_)

    compared = _ordered(
        {v for rule in domain.rules if len(rule.variables) > 1 for v in rule.variables}
    )
    roles = sorted({v.role for v in compared} - {HEAD})
    lacking = {role: rng.permutation(rows) < LACKING * rows for role in roles}
    for k in range(rows):
        present = [role for role in rng.permutation(roles) if not lacking[role][k]]
        absent = {*roles} - {*present[: layout.max_size - 1]}
        for role in absent & layout.counts.keys():
            composition[layout.counts[role] > 0, k] = False
        silent = {v for v in compared if np.isnan(numbers[v]).any() and rng.random() < LACKING}
        for variable in silent:
            person[(*cells[variable], k)] = np.isnan(numbers[variable])
        binding = [r for r in domain.rules if not r.roles & absent and not silent & {*r.variables}]
        for variable, (low, high) in _box(rng, binding, increasing).items():
            number = numbers[variable]
            within = np.isnan(number) | ((number >= low) & (number <= high))
            person[(*cells[variable], k)] &= within
    return RowSupports(person, composition)


def _numbers(domain: Domain, variable: Variable) -> NDArray[np.float64]:
    """(values,) by code its number; nan for 'absent'."""
    column = [c.name for c in domain.person].index(variable.column)
    return np.array([np.nan if n is None else n for n in column_numbers(domain, column)])


def _cells(domain: Domain, layout: ModelLayout, variable: Variable) -> tuple[slice, slice]:
    """The slots of a variable's role, and the rows of its column in every slot."""
    assert layout.types is not None
    column = [c.name for c in domain.person].index(variable.column)
    start = sum(layout.person_values[c] for c in layout.free_columns if c < column)
    first_other = 2 + layout.types.children
    slots = {
        HEAD: slice(0, 1),
        SPOUSE: slice(1, 2),
        CHILD: slice(2, first_other),
        OTHER: slice(first_other, layout.slots),
    }
    return slots[variable.role], slice(start, start + layout.person_values[column])


def _box(
    rng: np.random.Generator, rules: Sequence[Rule], numbers: Mapping[Variable, Sequence[int]]
) -> dict[Variable, tuple[int, int]]:
    """Bounds of every variable, such that all numbers within them keep all rules.

    In a random order, each low variable gets a bound U at random among those that leave the rules a
    solution; the bound of a high variable is then the largest U + gap.
    """
    fixed: dict[Variable, int] = {}  # U, by low variable
    domain = {v: numbers[v] for rule in rules for v in rule.variables}
    low_variables = {r.low for r in rules if r.low is not None and r.high is not None}
    order = _ordered(low_variables)
    for variable in (order[i] for i in rng.permutation(len(order))):
        solutions = [least_solution(rules, domain, {variable: n}) for n in domain[variable]]
        possible = [solution for solution in solutions if solution is not None]
        fixed[variable] = possible[int(rng.integers(len(possible)))][variable]
        domain[variable] = (fixed[variable],)
    bounds = {v: [numbers[v][0], numbers[v][-1]] for rule in rules for v in rule.variables}
    for variable, bound in fixed.items():
        bounds[variable][1] = bound
    for rule in rules:
        if rule.high is None:
            assert rule.low is not None
            bounds[rule.low][1] = min(bounds[rule.low][1], -rule.gap)
        else:
            low = rule.gap + (fixed[rule.low] if rule.low is not None else 0)
            bounds[rule.high][0] = max(bounds[rule.high][0], low)
    return {v: (low, high) for v, (low, high) in bounds.items()}


def _ordered(variables: Iterable[Variable]) -> list[Variable]:
    return sorted(variables, key=lambda v: (v.role, v.column))
