"""What measurements of groups and of events cost the worst change of one person, by brute force.

Written from the definitions alone: it counts in lists of members, and knows nothing of bounds.
"""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np

from stream_dp.batch.groups.workload.queries import (
    COUPLE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    LEAD,
    PERSON,
)


def cells(marginal, group, members):
    """What one group adds to each cell of a marginal.

    group: its attributes, the size last. members: the codes of each.
    """
    domain, level = marginal.domain, marginal.level
    place = tuple(group[c] for c in marginal.group)

    def own(member):
        return (*place, *(member[c] for c in marginal.person))

    if level == GROUP:
        return Counter({own(m) for m in members} if marginal.person else {place})
    if level == PERSON:
        return Counter(own(m) for m in members)
    head, spouse, child = domain.role_codes
    heads, spouses, children = (
        [m for m in members if m[domain.role_column] == role] for role in (head, spouse, child)
    )
    if level == LEAD:
        return lead(domain, marginal.person[0], heads[0], children)
    partners = [(heads[0], s) for s in spouses]
    if level == COUPLE:
        pairs = [(a, [b]) for a, b in partners]
    elif level == HAS_CHILD:
        pairs = [(p, children) for p in (*heads, *spouses)]
    elif level == HAS_PARENT:
        pairs = [(c, [*heads, *spouses]) for c in children]
    else:
        pairs = [(a, [b]) for a, b in partners] + [(b, [a]) for a, b in partners]
    counts = Counter()
    for person, relatives in pairs:
        for theirs in {tuple(r[c] for c in marginal.relative) for r in relatives}:
            counts[(*own(person), *theirs)] += 1
    return counts


def lead(domain, column, head, children):
    """The band of a head's lead: the values of the column are numbers, in order."""
    if not children:
        return Counter()
    ahead = head[column] - max(c[column] for c in children)
    return Counter([-1 if ahead < 0 else ahead.bit_length()])


def households(domain):
    """Every group without attributes whose roles are possible, by its roles."""
    role, rest = domain.role_column, [n for c, n in enumerate(domain.person_values)]
    free = [range(n) for c, n in enumerate(rest) if c != role]
    values = [*product(*free)]
    codes = [*range(rest[role])]
    head, spouse, child = domain.role_codes
    for size in range(1, domain.most + 1):
        for roles in combinations_with_replacement(codes, size):
            count = Counter(roles)
            if count[head] != 1 or count[spouse] > 1 or count[child] > domain.roles.children:
                continue
            several = [combinations_with_replacement(values, n) for n in count.values()]
            found = []
            for chosen in product(*several):
                members = []
                for code, of_role in zip(count, chosen, strict=True):
                    members += [(*v[:role], code, *v[role:]) for v in of_role]
                found.append(tuple(members))
            yield found


def changed(members, domain):
    """Every group in which one member has other values in the same role."""
    role = domain.role_column
    values = [*product(*(range(n) for n in domain.person_values))]
    for i, member in enumerate(members):
        if i and member == members[i - 1]:
            continue
        for new in values:
            if new[role] == member[role] and new != member:
                yield _sorted((*members[:i], new, *members[i + 1 :]), role)


def _sorted(members, role):
    order = {code: k for k, code in enumerate(dict.fromkeys(m[role] for m in members))}
    return tuple(sorted(members, key=lambda m: (order[m[role]], m)))


def worst_household_cost(marginals, precisions):
    """The largest cost over all groups and all changes of one member. precisions: by number."""
    domain, worst = marginals[0].domain, 0.0
    for found in households(domain):
        ordered = [_sorted(m, domain.role_column) for m in found]
        number = {members: k for k, members in enumerate(ordered)}
        vectors = _vectors(marginals, precisions, [((len(m) - 1,), m) for m in ordered])
        pairs = [(number[m], number[o]) for m in ordered for o in changed(m, domain) if m < o]
        worst = max(worst, _largest(vectors, np.array(pairs).reshape(-1, 2)))
    return worst


def worst_person_cost(marginals, precisions):
    """The largest cost over all pairs of people with their events."""
    domain = marginals[0].domain
    events = [*product(*(range(n) for n in domain.person_values))]
    people = [
        ((*own, size), several)
        for own in product(*(range(n) for n in domain.group_values[:-1]))
        for size in range(domain.most + 1)
        for several in combinations_with_replacement(events, size)
    ]
    vectors = _vectors(marginals, precisions, people)
    return max(
        _largest(vectors, np.array([(k, o) for o in range(len(people))]))
        for k in range(len(people))
    )


def _vectors(marginals, precisions, groups):
    """The counts of each group, times the square root of the precision."""
    columns, rows = {}, []
    for k, (group, members) in enumerate(groups):
        for i, precision in precisions.items():
            for cell, count in cells(marginals[i], group, members).items():
                column = columns.setdefault((i, cell), len(columns))
                rows.append((k, column, count * float(precision) ** 0.5))
    result = np.zeros((len(groups), len(columns)))
    for k, column, value in rows:
        result[k, column] = value
    return result


def _largest(vectors, pairs):
    worst = 0.0
    for start in range(0, len(pairs), 20_000):
        a, b = pairs[start : start + 20_000].T
        worst = max(worst, float(((vectors[a] - vectors[b]) ** 2).sum(axis=1).max() / 2))
    return worst
