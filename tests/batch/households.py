"""Small models of households, and what they answer, counted one household at a time."""

from itertools import product

import numpy as np

from stream_dp.batch.data.domain import Column, Domain, Roles
from stream_dp.batch.groups.hpd.model_arrays import model_layout
from stream_dp.batch.groups.hpd.product_mixture import HPD
from stream_dp.batch.groups.workload.queries import GROUP, SPOUSE, Queries


def columns(prefix, *sizes):
    return tuple(Column(f"{prefix}{i}", tuple(range(n))) for i, n in enumerate(sizes))


DOMAINS = {
    "alike": Domain(columns("g", 2, 3), columns("p", 3, 2), 3),
    # The role stands between two other columns, its codes in no particular order.
    "typed": Domain(
        columns("g", 2),
        columns("p", 2, 3, 2),
        4,
        Roles(column="p1", head=2, spouse=0, child=1, children=2),
    ),
    # Others have one of two roles; a spouse and two children leave room for one of them only.
    "others": Domain(
        columns("g", 2),
        columns("p", 2, 5),
        4,
        Roles(column="p1", head=3, spouse=0, child=1, children=2),
    ),
}
LAYOUTS = {name: model_layout(domain, 2) for name, domain in DOMAINS.items()}


GROUPS, PEOPLE = 1000, 2500


def levels(layout):
    return range(6) if layout.types else range(2)


def random_queries(rng, layout, n, level=None):
    """Of one level or of all; many columns free; the size among the group's targets."""
    chosen = rng.choice(levels(layout), n) if level is None else np.full(n, level)

    def codes(values):
        drawn = rng.integers(0, values, (n, len(values)))
        return np.where(rng.random(drawn.shape) < 0.5, -1, drawn).astype(np.int16)

    relative = codes(layout.person_values)
    relative[chosen < SPOUSE] = -1
    group = codes((*layout.group_values, layout.max_size))
    return Queries(chosen.astype(np.int8), group, codes(layout.person_values), relative)


def model(name="others", rows=20, **more):
    return HPD(
        domain=DOMAINS[name],
        groups=GROUPS,
        people=PEOPLE,
        rows=rows,
        other_slots=2,
        **more,
    )


def workload(family, n, seed=1):
    return random_queries(np.random.default_rng(seed), family.layout, n)


def random_logits(rng, layout, rows, spread=1.5):
    return {
        name: rng.normal(0, spread, (length, rows)).astype(np.float32)
        for name, length in layout.heads.items()
    }


def _softmax(logits):
    weight = np.exp(logits.astype(float) - logits.max())
    return weight / weight.sum()


def _vectors(logits, sizes):
    ends = np.cumsum(sizes)
    return [_softmax(logits[e - s : e]) for s, e in zip(sizes, ends, strict=True)]


def compositions(layout, logits, k):
    """(slots that are filled, probability given k)."""
    if layout.types is None:
        for m, p in enumerate(_softmax(logits["size"][:, k]), 1):
            yield list(range(m)), p
        return
    spouse, child = _softmax(logits["spouse"][:, k]), _softmax(logits["child"][:, k])
    other = _softmax(logits["other"][:, k]) if layout.types.other_slots else [1.0]
    weighted = []
    for (n, a), (c, b), (o, d) in product(enumerate(spouse), enumerate(child), enumerate(other)):
        if 1 + n + c + o <= layout.max_size:
            first = 2 + layout.types.children
            weighted.append(([0, *[1] * n, *range(2, 2 + c), *range(first, first + o)], a * b * d))
    total = sum(p for _, p in weighted)
    yield from ((slots, p / total) for slots, p in weighted)


def roles(layout, logits, k):
    """What the role column has in each slot: a vector of probabilities."""
    values, types = layout.person_values[layout.types.column], layout.types
    for slot in range(2 + types.children):
        yield np.eye(values)[types.codes[min(slot, 2)]]
    for part in logits["role"][:, k].reshape(types.other_slots, -1) if types.other_slots else ():
        vector = np.zeros(values)
        vector[list(types.other_codes)] = _softmax(part)
        yield vector


def households(layout, logits):
    """Every household that a model can make: (probability, group codes, people codes)."""
    rows = logits["group"].shape[1]
    for k in range(rows):
        of_group = _vectors(logits["group"][:, k], layout.group_values)
        sizes = [layout.person_values[c] for c in layout.free_columns]
        of_slot = []
        for part in logits["person"][:, k].reshape(layout.slots, -1):
            vectors = _vectors(part, sizes)
            if layout.types is not None:
                vectors.insert(layout.types.column, list(roles(layout, logits, k))[len(of_slot)])
            people = product(*(range(len(v)) for v in vectors))
            weighted = [
                (p, np.prod([v[c] for v, c in zip(vectors, p, strict=True)])) for p in people
            ]
            of_slot.append([(p, chance) for p, chance in weighted if chance])
        for slots, chance in compositions(layout, logits, k):
            for group in product(*map(range, layout.group_values)):
                lead = chance / rows * np.prod([v[c] for v, c in zip(of_group, group, strict=True)])
                for members in product(*(of_slot[s] for s in slots)):
                    codes = np.array([p for p, _ in members])
                    yield lead * np.prod([p for _, p in members]), (*group, len(slots) - 1), codes


def fits(codes, wanted):
    """(queries, members): do codes (members, columns) have what is wanted (queries, columns)?"""
    return ((wanted[:, None] < 0) | (codes[None] == wanted[:, None])).all(axis=-1)


def relatives(layout, people):
    """(levels, members, members): whether the second is what the level asks of the first."""
    itself = np.eye(len(people), dtype=bool)
    if layout.types is None:
        return np.stack([itself] * 2)
    role = people[:, layout.types.column]
    head, spouse, child = (role == code for code in layout.types.codes)
    adult = head | spouse
    couple = np.outer(head, spouse) | np.outer(spouse, head)
    parents = np.outer(adult, child)
    return np.stack([itself, itself, couple, parents, parents.T, np.outer(head, spouse)])


def contribution(layout, group, people, queries):
    """(n,) what one household adds to each query's count, by the queries' definition."""
    other = fits(people, queries.relative)[:, None] & relatives(layout, people)[queries.level]
    members = (fits(people, queries.person) & other.any(axis=-1)).sum(axis=1)
    counts = np.where(queries.level == GROUP, np.minimum(members, 1), members)
    return counts * fits(np.array([group]), queries.group)[:, 0]


def expected(layout, logits, queries):
    """(n,) shares by enumeration of all households: of groups, or of people."""
    total, members, probability = np.zeros(len(queries.level)), 0.0, 0.0
    for chance, group, people in households(layout, logits):
        total += chance * contribution(layout, group, people, queries)
        members += chance * len(people)
        probability += chance
    assert abs(probability - 1) < 1e-9
    return total / np.where(queries.level == GROUP, 1.0, members)


def counted(layout, group, people, group_of, queries):
    """(groups, n) what each group adds to each query's count."""
    starts = np.searchsorted(group_of, np.arange(len(group) + 1))
    known, rows = {}, []
    for g, a, b in zip(group, starts, starts[1:], strict=False):
        key = g.tobytes() + people[a:b].tobytes()
        if key not in known:
            known[key] = contribution(layout, g, people[a:b], queries)
        rows.append(known[key])
    return np.array(rows)
