"""Random groups of members, and what queries count among them, written out person by person."""

import numpy as np
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.workload.exact_counts import MEMORY, exact_answers
from stream_dp.batch.groups.workload.queries import (
    COUPLE,
    FREE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Queries,
)

HEAD, SPOUSE_ROLE, CHILD, OTHER = "head", "spouse", "child", "other"
ROLES = Roles(column="role", head=HEAD, spouse=SPOUSE_ROLE, child=CHILD, children=3)
ALIKE = Domain(
    (Column("region", ("n", "s", "w")), Column("tenure", (1, 2))),
    (Column("sex", (1, 2)), Column("age", ("young", "middle", "old"))),
    4,
)
# The role stands first, its codes in no particular order.
RELATED = Domain(
    (Column("region", ("n", "s")),),
    (
        Column("role", (CHILD, OTHER, HEAD, SPOUSE_ROLE)),
        Column("sex", (1, 2)),
        Column("age", ("young", "middle", "old")),
    ),
    6,
    ROLES,
)


@st.composite
def hierarchies(draw, domain, most_groups=5):
    groups, people, group_of = [], [], []
    for g in range(draw(st.integers(0, most_groups))):
        size = draw(st.integers(1, domain.most))
        groups.append([*(draw(st.integers(0, n - 1)) for n in domain.group_values[:-1]), size - 1])
        group_of += [g] * size
        members = [[draw(st.integers(0, n - 1)) for n in domain.person_values] for _ in range(size)]
        if domain.roles is not None:
            for member, role in zip(members, draw(st.permutations(draw(roles(size)))), strict=True):
                member[domain.role_column] = domain.person[domain.role_column].code(role)
        people += members
    return Hierarchy(
        domain,
        np.array(groups, np.int64).reshape(-1, len(domain.group_values)),
        np.array(people, np.int64).reshape(-1, len(domain.person_values)),
        np.array(group_of, np.int64),
    )


@st.composite
def roles(draw, size):
    spouses = draw(st.integers(0, min(1, size - 1)))
    children = draw(st.integers(0, min(ROLES.children, size - 1 - spouses)))
    others = size - 1 - spouses - children
    return [HEAD, *[SPOUSE_ROLE] * spouses, *[CHILD] * children, *[OTHER] * others]


@st.composite
def query_lists(draw, domain):
    """Any queries, most columns free."""
    rows = []
    levels = 6 if domain.roles is not None else 2
    for _ in range(draw(st.integers(0, 12))):
        level = draw(st.integers(0, levels - 1))
        people = domain.person_values
        targets = [
            [draw(st.sampled_from([FREE, FREE, *range(n)])) for n in values]
            for values in (domain.group_values, people, people)
        ]
        if level < SPOUSE:
            targets[2] = [FREE] * len(people)
        rows.append((level, *targets))
    widths = (len(domain.group_values), len(domain.person_values), len(domain.person_values))
    return Queries(
        np.array([r[0] for r in rows], np.int8),
        *(
            np.array([r[i + 1] for r in rows], np.int16).reshape(-1, width)
            for i, width in enumerate(widths)
        ),
    )


def has(codes, targets):
    return all(t in (FREE, c) for c, t in zip(codes, targets, strict=True))


def relatives(level, member, members, role):
    """Of one member, as indices; role: of each member, in words."""
    adults = (HEAD, SPOUSE_ROLE)
    for other in range(len(members)):
        if other == member:
            continue
        pair = role[member], role[other]
        if (
            (level == SPOUSE and set(pair) == set(adults))
            or (level == HAS_CHILD and pair[0] in adults and pair[1] == CHILD)
            or (level == COUPLE and pair == adults)
            or (level == HAS_PARENT and pair[0] == CHILD and pair[1] in adults)
        ):
            yield other


def count(hierarchy, queries, i):
    domain, total = hierarchy.domain, 0
    level, group = queries.level[i], queries.group[i]
    person, relative = queries.person[i], queries.relative[i]
    for g in range(hierarchy.G):
        members = [m for m, of in zip(hierarchy.people, hierarchy.group_of, strict=True) if of == g]
        if not has(hierarchy.groups[g], group):
            continue
        fitting = [m for m in range(len(members)) if has(members[m], person)]
        if level == GROUP:
            total += bool(fitting)
        elif level == PERSON:
            total += len(fitting)
        else:
            column = domain.role_column
            role = [domain.person[column].values[m[column]] for m in members]
            for m in fitting:
                theirs = relatives(level, m, members, role)
                total += any(has(members[r], relative) for r in theirs)
    return total


def marginal_counts(hierarchy, marginal, memory=MEMORY):
    """The exact counts of all cells of a marginal."""
    return exact_answers(hierarchy, marginal.queries(), memory)
