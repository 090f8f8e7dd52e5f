"""What one person's change in place costs: every change of every small group, by brute force."""

from collections import Counter
from itertools import combinations_with_replacement, product

import grouped
import numpy as np
import pytest
from grouped import CHILD, HEAD, OTHER, SPOUSE_ROLE, marginal_counts
from hypothesis import assume, given
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.workload.queries import (
    COUPLE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Marginal,
    all_marginals,
)
from stream_dp.batch.groups.workload.sensitivity import (
    error_sensitivity,
    squared_sensitivity,
)
from stream_dp.errors import UserError
from stream_dp.study.group_releases import check_relation

ROLES = (HEAD, SPOUSE_ROLE, CHILD, OTHER)
LEVELS = (GROUP, PERSON, SPOUSE, HAS_CHILD, HAS_PARENT, COUPLE)


def domain(children, values=2):
    columns = (Column(name, tuple(range(values))) for name in "ab")
    return Domain(
        (),
        (Column("role", ROLES), *columns),
        children + 3,
        Roles(column="role", head=HEAD, spouse=SPOUSE_ROLE, child=CHILD, children=children),
    )


def cells(level, members):
    """What one group adds to each cell of the marginal; members: (role, own, relative's)."""
    if level == GROUP:
        return Counter({own for _, own, _ in members})
    if level == PERSON:
        return Counter(own for _, own, _ in members)
    counts = Counter()
    role = [m[0] for m in members]
    for m, (_, own, _) in enumerate(members):
        theirs = {members[r][2] for r in grouped.relatives(level, m, members, role)}
        counts.update((own, r) for r in theirs)
    return counts


def valid(members, children):
    role = Counter(m[0] for m in members)
    return role[HEAD] == 1 and role[SPOUSE_ROLE] <= 1 and role[CHILD] <= children


def changes(size, children, people):
    """Every two valid groups of a size that differ in one member, up to order.

    Gives the groups, and whether the member's role is the same in both.
    """
    for members in combinations_with_replacement(people, size):
        if not valid(members, children):
            continue
        for i in range(size):
            if i and members[i] == members[i - 1]:
                continue
            for new in people:
                after = tuple(sorted((*members[:i], new, *members[i + 1 :])))
                if members < after and valid(after, children):
                    yield members, after, new[0] == members[i][0]


def largest(level, children, people):
    """The largest sum of squares and of sizes of the changes of all cells.

    By whether the role of the member who changes is the same: of those changes, and of all.
    """
    known = {}

    def of(members):
        if members not in known:
            known[members] = cells(level, members)
        return known[members]

    most = {True: (0, 0), False: (0, 0)}
    for size in range(1, children + 3):
        for before, after, same_role in changes(size, children, people):
            a, b = of(before), of(after)
            moved = [abs(a[c] - b[c]) for c in a.keys() | b.keys()]
            sums = sum(d * d for d in moved), sum(moved)
            for which in {same_role, False}:
                most[which] = tuple(map(max, most[which], sums))
    return most


# Own and relative's columns are different ones, or one and the same.
PEOPLE = {
    "two columns": sorted(product(ROLES, (0, 1), (0, 1))),
    "one column": sorted((role, v, v) for role in ROLES for v in range(3)),
}


@pytest.mark.parametrize(
    ("children", "level"),
    [
        (c, level)
        for level, most in ((GROUP, 1), (PERSON, 1), (SPOUSE, 2), (COUPLE, 2))
        for c in range(1, most + 1)
    ]
    + [(c, level) for level in (HAS_CHILD, HAS_PARENT) for c in (1, 2, 3)],
)
@pytest.mark.parametrize("people", PEOPLE)
def test_no_change_moves_more_and_some_change_moves_as_much(children, level, people):
    declared = domain(children, 3 if people == "one column" else 2)
    relative = (2,) if level >= SPOUSE else ()
    marginal = Marginal(declared, level, person=(1,), relative=relative)
    for squared, sizes in largest(level, children, PEOPLE[people]).values():
        assert squared == squared_sensitivity(marginal)
        assert sizes == error_sensitivity(marginal)


MARGINALS = [m for k in (1, 2, 3) for m in all_marginals(grouped.RELATED, k, LEVELS)]


@given(data=st.data(), marginal=st.sampled_from(MARGINALS))
def test_tables_of_neighbours_differ_by_no_more(data, marginal):
    """With roles, the role among the columns, group attributes, and more groups than one."""
    hierarchy = data.draw(grouped.hierarchies(grouped.RELATED))
    assume(hierarchy.N)
    people = hierarchy.people.copy()
    people[data.draw(st.integers(0, hierarchy.N - 1))] = [
        data.draw(st.integers(0, n - 1)) for n in grouped.RELATED.person_values
    ]
    try:
        other = Hierarchy(grouped.RELATED, hierarchy.groups, people, hierarchy.group_of)
    except ValueError:
        assume(False)
    moved = marginal_counts(hierarchy, marginal) - marginal_counts(other, marginal)
    assert (moved**2).sum() <= squared_sensitivity(marginal)
    assert abs(moved).sum() <= error_sensitivity(marginal)
    if not (marginal.person or marginal.relative):
        assert not moved.any()


@pytest.mark.parametrize("children", [4, 5, 7])
def test_parents_of_many_children(children):
    """A head whose own value changes, and children who all differ: 2 C; all alike: 2 C^2.

    If the relative's column has fewer values than there may be children, 2 for each value.
    """
    roles = Roles(column="role", head="head", spouse="spouse", child="child", children=children)
    columns = Column("role", ("head", "spouse", "child")), Column("a", tuple(range(children + 1)))
    declared = Domain((), columns, children + 1, roles)

    def moved(level, values):
        tables = []
        for head in (0, 1):
            people = [[0, head], *([2, v] for v in values)]
            hierarchy = Hierarchy(declared, [[children]], people, np.zeros(children + 1))
            tables.append(
                marginal_counts(
                    hierarchy,
                    marginal := Marginal(
                        domain=declared, level=level, group=(), person=(1,), relative=(1,)
                    ),
                )
            )
        return int(((tables[0] - tables[1]) ** 2).sum()), squared_sensitivity(marginal)

    squared, bound = moved(HAS_CHILD, range(1, children + 1))
    assert squared == 2 * children
    assert bound == max(8, squared)
    for values in range(2, children):
        few = Column("a", tuple(range(values)))
        narrow = Domain((), (columns[0], few), children + 1, roles)
        marginal = Marginal(narrow, HAS_CHILD, person=(1,), relative=(1,))
        assert squared_sensitivity(marginal) == max(8, 2 * values)
        assert error_sensitivity(marginal) == max(4, 2 * values)
    squared, bound = moved(HAS_PARENT, [0] * children)
    assert squared == bound == 2 * children**2


def test_costs_under_other_relations_are_refused():
    check_relation("replace_in_place")
    for neighbours in ("replace_one", "add_remove"):
        with pytest.raises(UserError, match=neighbours):
            check_relation(neighbours)


def test_relations_without_roles_have_no_cost():
    with pytest.raises(ValueError, match="roles"):
        Marginal(grouped.ALIKE, HAS_CHILD, person=(0,), relative=(0,))
