"""The costliest change of one person over all measured marginals.

A measurement has a precision, 1 / variance. A change of one person costs half of the sum, over the
marginals, of precision times squared change. `sensitivity.py` bounds every marginal by itself, and
no change attains all of these bounds. Here changes fall into cases, and a case bounds all marginals
together. In each case the sum of the bounds is compared, and the largest sum counts.

Groups without roles: one case. A member of a group of one changes every attribute, and attains the
bound of every marginal.

Groups with roles. Roles stay. Let k be the number of children, n the values of a column, and e(j) 1
or 0 for every column j.
- A child changes. Let e(j) say whether the parents agree in column j. Of HAS_PARENT(c; r) the
  child's cells change: 2 for each different r of the parents, 4 - 2 e(r). Of HAS_CHILD(c; r) at
  most one r goes and one comes, in the cells of both parents: 4 + 4 e(c). COUPLE and SPOUSE stay.
- The head changes, or the spouse: the same bounds, but for LEAD, which is the head's. Let e(j) say
  whether the partner agrees with the person in column j before the change or after it; with two
  values the partner must. Let the children have d(j) values in column j, so that the sum of
  squares of their numbers is at most q(j) = (k - d(j) + 1)^2 + d(j) - 1.
    - HAS_CHILD(c; r): d(r) cells lose 1, and d(r) gain 1: 2 d(r).
    - HAS_PARENT(c; r): the numbers of children by c leave one r, if the partner does not have it,
      and enter another: (2 - e(r)) q(c), and 2 q(c) without a partner.
    - SPOUSE(c; r): before, the couple has the cells A and B, after it A' and B'. The change is 4,
      and 2 more if A = B or A' = B', which both need e(c) = e(r) = 1.
    - COUPLE: 2. Without a partner 0, as SPOUSE.
  The sum is convex in d(j), so that d(j) is 1 or as large as it can be. All e are compared for up
  to MOST_COMPARED columns. In further columns e is 0 where that costs more, and 1 where this does.
- Anybody changes GROUP and PERSON. Their bounds are 2. But GROUP of one column of two values
  changes by at most 1, unless the person lives alone: another member has one of the two values.
With k = 0 there are no relatives of children. A column of one value never changes.

People and their events. A person of m events changes, and then has m'. Let m be the larger: it
is `most`, because fewer events change less. Then m' is `most`, or one less, where sizes differ.
Let the events of a marginal have K cells, of which the person fills d before and d' after. For a
PERSON marginal the sum of squares is at most q = (m - d + 1)^2 + d - 1, and q' after. If a column
of people tells both apart, no cell is common: GROUP changes by d + d', PERSON by q + q'.
Otherwise GROUP changes by at most d + d' and at most K, and PERSON by q + q' at most: leave out
of either person the cells in which the other has more. The sum is convex in (d, d') on both sides
of d + d' = K, so that corners are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from ...data.domain import Domain
from ...rounds.phases import total
from .queries import COUPLE, GROUP, HAS_CHILD, HAS_PARENT, PERSON, SPOUSE, Marginal
from .sensitivity import squared_sensitivity

MOST_COMPARED = 12  # columns of which all e are compared
_ROUNDING = 1 + Fraction(1, 1 << 40)  # of sums of positive floats

Precisions = Mapping[int, Fraction]  # by number of a marginal, 1 / variance
Counts = defaultdict[int, Fraction]
Changes = dict[int, Fraction]  # by number of a marginal, the squared change
Worst = Callable[[Precisions], Changes]


def worst_changes(marginals: Sequence[Marginal]) -> Worst:
    """The function from precisions to the squared changes of the case that costs most.

    Half the sum of precision times change is what all measurements cost, at most.
    """
    if marginals[0].domain.events:
        return lambda precisions: _largest(precisions, _event_cases(marginals, precisions))
    if marginals[0].domain.roles is not None:
        return lambda precisions: _largest(precisions, _role_cases(marginals, precisions))
    single_costs = [Fraction(squared_sensitivity(m)) for m in marginals]
    return lambda precisions: {i: single_costs[i] for i in precisions}


def _largest(precisions: Precisions, cases: Iterator[Changes]) -> Changes:
    return max(cases, key=lambda changes: total(precisions, changes))


def _role_cases(marginals: Sequence[Marginal], precisions: Precisions) -> Iterator[Changes]:
    """The cases of groups with roles."""
    domain = marginals[0].domain
    assert domain.roles is not None
    alone, together, related = Changes(), Changes(), dict[int, tuple[int, int, int]]()
    for i in precisions:
        m = marginals[i]
        if m.level >= SPOUSE and len(m.person) == len(m.relative) == 1 and not m.group:
            related[i] = m.level, m.person[0], m.relative[0]
            continue
        together[i] = alone[i] = Fraction(squared_sensitivity(m))
        moving = [c for c in m.person if domain.person_values[c] > 1]
        if m.level == GROUP and [domain.person_values[c] for c in moving] == [2]:
            together[i] = min(together[i], Fraction(1))
        elif m.level >= SPOUSE:
            alone[i] = Fraction(0)
    pairs = _Pairs(domain, related, precisions)
    children = domain.roles.children
    yield alone
    if domain.most > 1:
        yield together | pairs.child_changes()
        yield together | pairs.parent_changes(min(children, domain.most - 1), partner=False)
        yield together | pairs.parent_changes(min(children, domain.most - 2), partner=True)


class _Pairs:
    """Marginals of a person's column c and a relative's column r.

    related: by number, the level, c and r.
    """

    def __init__(
        self, domain: Domain, related: Mapping[int, tuple[int, int, int]], precisions: Precisions
    ) -> None:
        self.values, self.most = domain.person_values, domain.most
        self.related, self.precisions = related, precisions
        self.columns = sorted({c for _, *both in related.values() for c in both})
        self.moves = {j: self.values[j] > 1 for j in self.columns}

    def child_changes(self) -> Changes:
        """The case that a child changes."""
        partner = self.most > 2
        gain = Counts(Fraction)  # of e(j) = 1 over e(j) = 0
        for i, (level, c, r) in self.related.items():
            if level == HAS_CHILD and self.moves[r]:
                gain[c] += 4 * self.precisions[i]
            elif level == HAS_PARENT and self.moves[c]:
                gain[r] -= 2 * self.precisions[i]
        agrees = {j: not partner or not self.moves[j] or gain[j] > 0 for j in self.columns}
        changes = Changes()
        for i, (level, c, r) in self.related.items():
            if level == HAS_CHILD and self.moves[r]:
                changes[i] = Fraction((4 + 4 * agrees[c]) if partner else 2)
            elif level == HAS_PARENT and self.moves[c]:
                changes[i] = Fraction(4 - 2 * agrees[r])
        return changes

    def parent_changes(self, children: int, *, partner: bool) -> Changes:
        """The case that a parent with so many children changes.

        partner: whether there is the other parent.
        """
        agrees, leaving = dict.fromkeys(self.columns, 1), dict.fromkeys(self.columns, 2)
        rounding = Fraction(1)
        if partner:
            agrees, leaving, rounding = self._compared(children)
        different = self._children(children, leaving)
        changes = Changes()
        for i, (level, c, r) in self.related.items():
            moving = self.moves[c] + self.moves[r]
            if level == HAS_CHILD and self.moves[c] and children:
                changes[i] = 2 * different[r] * rounding
            elif level == HAS_PARENT and self.moves[r] and children:
                changes[i] = leaving[r] * _squares(children, different[c]) * rounding
            elif level == SPOUSE and partner:
                changes[i] = (2 * moving + 2 * (moving == 2 and agrees[c] * agrees[r])) * rounding
            elif level == COUPLE and partner and moving:
                changes[i] = 2 * rounding
        return changes

    def _children(self, children: int, leaving: Mapping[int, int]) -> dict[int, int]:
        """By column, the number d of the children's values that costs most.

        leaving: by column r, the cells of one child that HAS_PARENT(c; r) changes.
        """
        few, many = Counts(Fraction), Counts(Fraction)
        top = {j: max(1, min(children, self.values[j])) for j in self.columns}
        for i, (level, c, r) in self.related.items():
            if level == HAS_CHILD and self.moves[c]:
                few[r] += 2 * self.precisions[i]
                many[r] += 2 * top[r] * self.precisions[i]
            elif level == HAS_PARENT and self.moves[r]:
                few[c] += leaving[r] * _squares(children, 1) * self.precisions[i]
                many[c] += leaving[r] * _squares(children, top[c]) * self.precisions[i]
        return {j: top[j] if many[j] > few[j] else 1 for j in self.columns}

    def _compared(self, children: int) -> tuple[dict[int, int], dict[int, int], Fraction]:
        """By column, e of the costliest and the cells of one child; and the rounding of floats."""
        at, n = {j: p for p, j in enumerate(self.columns)}, len(self.columns)
        sums = {level: np.zeros((n, n)) for level in (SPOUSE, HAS_CHILD, HAS_PARENT)}
        for i, (level, c, r) in self.related.items():
            moving = {HAS_CHILD: self.moves[c], HAS_PARENT: self.moves[r]}
            if level in sums and moving.get(level, self.moves[c] and self.moves[r]):
                sums[level][at[c], at[r]] += float(self.precisions[i])
        free = [p for j, p in at.items() if self.values[j] > 2]
        free = [p for p in free if sums[HAS_PARENT][:, p].any() or sums[SPOUSE][p].any()]
        compared, further = free[:MOST_COMPARED], free[MOST_COMPARED:]
        agreeing = np.ones((1 << len(compared), n))
        agreeing[:, compared] = [*product((1, 0), repeat=len(compared))]
        leaving = 2 - agreeing
        leaving[:, further] = 2
        costs = 2 * np.einsum("ej,jk,ek->e", agreeing, sums[SPOUSE], agreeing)
        if children:
            top = np.array([max(1, min(children, self.values[j])) for j in self.columns])
            child, parents = sums[HAS_CHILD].sum(axis=0), leaving @ sums[HAS_PARENT].T
            few = 2 * child + _squares(children, 1) * parents
            many = 2 * top * child + ((children - top + 1) ** 2 + top - 1) * parents
            costs += np.maximum(few, many).sum(axis=1)
        e = int(costs.argmax())
        rounding = _ROUNDING if len(costs) > 1 else Fraction(1)
        by_column = [{j: int(rows[e, p]) for j, p in at.items()} for rows in (agreeing, leaving)]
        return by_column[0], by_column[1], rounding


def _squares(rows: int, cells: int) -> int:
    """The largest sum of squares of rows in so many cells, none of them empty."""
    return (rows - cells + 1) ** 2 + cells - 1 if cells else 0


def _event_cases(marginals: Sequence[Marginal], precisions: Precisions) -> Iterator[Changes]:
    """The cases of people with their events: by the size of the smaller person."""
    most, falls = marginals[0].domain.most, False
    of_cells = defaultdict[tuple[int, ...], list[int]](list)
    for i in precisions:
        m = marginals[i]
        of_cells[m.person].append(i)
        falls |= m.level == PERSON and not _apart(m, sized=True) and _cells(m) == 1
    for fewer in range(most + 1) if falls else (most, most - 1):
        changes = Changes()
        for same_cells in of_cells.values():
            part = {i: precisions[i] for i in same_cells}
            corners = _corners(_cells(marginals[same_cells[0]]), most, fewer)
            changes |= _largest(
                part, ({i: _event_change(marginals[i], fewer, *d) for i in part} for d in corners)
            )
        yield changes


def _corners(cells: int, most: int, fewer: int) -> set[tuple[int, int]]:
    """The numbers of cells that two people may fill, among them all at which a cost is largest."""
    a, least, b = min(most, cells), min(fewer, 1), min(fewer, cells)
    corners = {*product((1, a), (least, b))}
    corners |= {(1, cells - 1), (a, cells - a), (cells - least, least), (cells - b, b)}
    return {(d, e) for d, e in corners if 1 <= d <= a and least <= e <= b}


def _event_change(m: Marginal, fewer: int, d: int, e: int) -> Fraction:
    """The squared change of a marginal where the two people fill d and e cells."""
    most, apart = m.domain.most, _apart(m, sized=fewer < m.domain.most)
    if m.level == GROUP:
        if not m.person:
            return Fraction(2 * apart)
        return Fraction(d + e if apart else min(d + e, _cells(m)))
    if apart or _cells(m) > 1:
        return Fraction(_squares(most, d) + _squares(fewer, e))
    return Fraction((most - fewer) ** 2)


def _apart(m: Marginal, *, sized: bool) -> bool:
    """Whether a column of people tells two people apart. sized: whether their sizes differ."""
    size = len(m.domain.group_values) - 1
    other_cells = prod(m.domain.group_values[c] for c in m.group if c != size)
    return other_cells > 1 or (sized and size in m.group)


def _cells(m: Marginal) -> int:
    return prod(m.domain.person_values[c] for c in m.person)
