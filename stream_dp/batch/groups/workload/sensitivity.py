"""How much one person changes hierarchical counts.

First of groups and their members under `replace_in_place`, then of people and their events.

The relation: one person's own attributes change, everything else stays: the groups, who belongs
to which, their sizes and attributes. In a study everybody's role stays too, over the whole history:
it comes with membership, never from a report, and the certificate says so. The bounds hold for
more: a role may change as well, as far as both tables are valid, with exactly one head, at most
one spouse and at most C children. Then a head stays the head; spouses, children and others may
become one another. No bound of relatives grows by that: each is proved for any change, and attained
with all roles fixed. How much all marginals together change is in `worst_changes.py`.

One group changes, in one cell of its group attributes. Write x for the own targets' columns of a
person, r for the relative's columns, h, s for head and spouse, R for the set of r of all children,
who are C at most. A cell of a marginal of a relation is (x, r), and holds the people with x
who have a relative with r: each person adds at most 1 to a cell, however many relatives fit.

Whole marginals, squared L2
- GROUP, PERSON: 2. One cell loses 1 and one gains 1.
- SPOUSE: 6. A couple adds 1 to (x_h, r_s) and 1 to (x_s, r_h). If two are removed and two added,
  both of one kind in one cell would give 4 + 4; but (x_h, r_s) = (x_s, r_h) before and after the
  change of, say, h means x_h = x_s and r_h = r_s both times, which is no change. So at most one
  side has a cell of 2: 4 + 1 + 1. A couple that only begins or ends: at most 4.
- HAS_CHILD: max(8, 2 D), where D is the smaller of C and the number of cells of the relative, so
  that |R| <= D. Parent p adds 1 to (x_p, r) for each r in R. A parent's own change moves |R|
  entries: at most 2 D cells change by 1. A child's change takes at most one r out of R and brings
  at most one in, for both parents: with x_h = x_s that is 2 in each of two cells, 8. A spouse
  who begins or ends: at most D; if they are a child in the other table, the head's (x_h, r) moves
  only if no other child has r, which leaves D - 1 for the spouse: D. A child from or to an other:
  at most 4.
- HAS_PARENT: max(4, 2 C^2). Child c adds 1 to (x_c, r) for each r in {r_h, r_s}. A child's own
  change takes at most 2 entries away and brings 2: cells with one x are different, so 4. A
  parent's change takes at most one r from the children and brings at most one: the columns (., r)
  and (., r') change by vectors of non-negative entries with sum at most C, squared at most C^2
  each: 2 C^2. A spouse who begins or ends: at most C^2; if they are a child in the other table,
  (C - 1)^2 + 1. A child from or to an other: at most 2.
- COUPLE: 2. A group has at most one couple, so one cell loses 1 and one gains 1.
- LEAD: 2. A group has one head, who is in at most one band: one cell loses 1 and one gains 1,
  whoever of head and children changes.
At C = 3 these are 6, 8 and 18. Bounds are attained if groups may be of 3 and the columns have
enough values: two, but for HAS_CHILD at D > 4, where the relative's need D.

Queries that nobody can move: those about groups or people with group columns and roles alone. How
many groups have an attribute or a size, and how many people of a role belong to such groups, stays
as it is: 0. So does what a column of one value counts. They are free. Their answers get noise all
the same, so that no number in a result is exact.

Whole marginals, L1 (what a sum of absolute errors over all cells changes by, at most)
- GROUP, PERSON, COUPLE, LEAD: 2, as above.
- SPOUSE: 4. Two entries are removed and two added.
- HAS_CHILD: max(4, 2 D). A parent's own change removes |R| <= D entries and adds as many; a
  child's takes one r out of R and brings one in, for two parents; a spouse who begins or ends, or
  changes with a child: at most D, as above.
- HAS_PARENT: max(4, 2 C). A child's own change removes two entries and adds two; a parent's takes
  one entry of each child and adds one; a spouse's as above: at most C.

People and their events
One person is a group, and changes with all events, of which there may be up to M, or none: another
person takes the place. So nothing is free, and roles are not there. A person adds to a marginal of
K cells of event columns, for one value g of the columns of people:
- GROUP without event columns: 1 to the cell g. Squared L2 and L1: 2.
- GROUP with event columns: 1 to the cells (g, x) of the distinct x of all events, who are up to
  D = min(M, K). Before and after with other g, no cell is common: 2 D. With one g, the cells that
  change lie in one set of K: min(2 M, K), which is no more. If the size is the only column of
  people, other g have other sizes, M and M - 1: D + min(M - 1, K), or min(2 M, K) with one size.
- PERSON, events: their number in each cell. All in one cell before, all in another after: 2 M^2,
  and 2 M in L1; more cells give less, for a sum of squares is at most the square of the sum. If
  the size is the only column at all, cells differ with the size: M^2 + (M - 1)^2, and 2 M - 1.
  Without another cell, an only cell goes from M to 0: M^2, and M.
These are exact for each marginal. No one person attains all of them: a person with M events before
and after moves no cell of the sizes.

Source of the relation and of the levels: Liu, Wu (arXiv 2206.05942), which charges one normalised
sensitivity for all. Proofs and bounds for marginals are this project's.
"""

from __future__ import annotations

from math import prod

from .queries import COUPLE, GROUP, HAS_CHILD, HAS_PARENT, LEAD, PERSON, SPOUSE, Marginal


def squared_sensitivity(marginal: Marginal) -> int:
    """The largest squared L2 change of all cells of a marginal together; derived above."""
    if marginal.domain.events:
        return _events_change(marginal, power=2)
    if _unmoved(marginal):
        return 0
    c = _children(marginal)
    return {
        GROUP: 2,
        PERSON: 2,
        SPOUSE: 6,
        HAS_CHILD: max(8, 2 * _distinct_children(marginal)),
        HAS_PARENT: max(4, 2 * c * c),
        COUPLE: 2,
        LEAD: 2,
    }[marginal.level]


def error_sensitivity(marginal: Marginal) -> int:
    """The largest L1 change of all cells of a marginal together; derived above."""
    if marginal.domain.events:
        return _events_change(marginal, power=1)
    if _unmoved(marginal):
        return 0
    return {
        GROUP: 2,
        PERSON: 2,
        SPOUSE: 4,
        HAS_CHILD: max(4, 2 * _distinct_children(marginal)),
        HAS_PARENT: max(4, 2 * _children(marginal)),
        COUPLE: 2,
        LEAD: 2,
    }[marginal.level]


def _events_change(marginal: Marginal, power: int) -> int:
    """The largest change by a person with all events: the sum of |change| ** power over cells."""
    domain, most = marginal.domain, marginal.domain.most
    size = len(domain.group_values) - 1
    sized = size in marginal.group
    other_cells = prod(domain.group_values[c] for c in marginal.group if c != size)
    cells = prod(domain.person_values[c] for c in marginal.person)
    if marginal.level == PERSON:
        every, fewer = (most, most - 1) if power == 1 else (most**2, (most - 1) ** 2)
        return 2 * every if other_cells * cells > 1 else every + (fewer if sized else 0)
    if not marginal.person:
        return 2 if other_cells > 1 or sized else 0
    if other_cells > 1:
        return 2 * min(most, cells)
    one_size = min(2 * most, cells)
    return max(one_size, min(most, cells) + min(most - 1, cells)) if sized else one_size


def _unmoved(marginal: Marginal) -> bool:
    """Whether no change of a person's attributes moves any cell: roles stay."""
    domain = marginal.domain
    role = None if domain.roles is None else domain.role_column
    moving = [c for c in marginal.person if domain.person_values[c] > 1 and c != role]
    return marginal.level < SPOUSE and not moving


def _distinct_children(marginal: Marginal) -> int:
    """The largest number of cells of the relative that the children of a group fill."""
    values = marginal.domain.person_values
    return min(_children(marginal), prod(values[c] for c in marginal.relative))


def _children(marginal: Marginal) -> int:
    if marginal.level < SPOUSE:
        return 0
    if marginal.domain.roles is None:
        raise ValueError("queries of relations need a domain with roles")
    return marginal.domain.roles.children
