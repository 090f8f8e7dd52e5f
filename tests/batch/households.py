"""Small models of households, and what they answer, counted one household at a time."""

from itertools import product
from typing import NamedTuple

import numpy as np

from stream_dp.batch.layout import GROUP, SPOUSE, Layout

ALIKE = Layout((2, 3), (3, 2), 3)
# The role stands between two other columns, its codes in no particular order.
TYPED = Layout((2,), (2, 4, 2), 4, 2, (1, (2, 0, 3)))
LAYOUTS = {"alike": ALIKE, "typed": TYPED}


class Targets(NamedTuple):
    """Queries as `queries.Queries` has them: arrays with -1 where a column is free."""

    level: np.ndarray
    group: np.ndarray
    person: np.ndarray
    relative: np.ndarray


def levels(layout):
    return range(5) if layout.children is not None else range(2)


def random_targets(rng, layout, n, level=None):
    """Of one level or of all; many columns free; the size among the group's targets."""
    chosen = rng.choice(levels(layout), n) if level is None else np.full(n, level)

    def codes(values):
        drawn = rng.integers(0, values, (n, len(values)))
        return np.where(rng.random(drawn.shape) < 0.5, -1, drawn).astype(np.int16)

    relative = codes(layout.person_values)
    relative[chosen < SPOUSE] = -1
    group = codes((*layout.group_values, layout.most))
    return Targets(chosen.astype(np.int8), group, codes(layout.person_values), relative)


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
    if layout.children is None:
        for m, p in enumerate(_softmax(logits["size"][:, k]), 1):
            yield list(range(m)), p
        return
    spouse, child = _softmax(logits["spouse"][:, k]), _softmax(logits["child"][:, k])
    for n, c in product(range(2), range(layout.children + 1)):
        yield [0, *[1] * n, *range(2, 2 + c)], spouse[n] * child[c]


def households(layout, logits):
    """Every household that a model can make: (probability, group codes, people codes)."""
    rows = logits["group"].shape[1]
    for k in range(rows):
        of_group = _vectors(logits["group"][:, k], layout.group_values)
        sizes = [layout.person_values[c] for c in layout.free_columns]
        of_slot = []
        for part in logits["person"][:, k].reshape(layout.slots, -1):
            vectors = _vectors(part, sizes)
            if layout.role is not None:
                role = layout.role_table()[len(of_slot)].astype(float)
                vectors.insert(layout.role[0], role)
            people = product(*(range(len(v)) for v in vectors))
            made = [(p, np.prod([v[c] for v, c in zip(vectors, p, strict=True)])) for p in people]
            of_slot.append([(p, chance) for p, chance in made if chance])
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
    if layout.role is None:
        return np.stack([itself] * 2)
    role = people[:, layout.role[0]]
    head, spouse, child = (role == code for code in layout.role[1])
    adult = head | spouse
    couple = np.outer(head, spouse) | np.outer(spouse, head)
    return np.stack([itself, itself, couple, np.outer(adult, child), np.outer(child, adult)])


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
