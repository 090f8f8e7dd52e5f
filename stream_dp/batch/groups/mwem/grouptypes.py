"""All possible groups, up to the order of their members: the cells of an explicit histogram.

A type consists of the group's attributes and the multiset of its members. With roles it has one
head, at most one spouse, a multiset of children and a multiset of others. Only small domains have
few enough types.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError

from ...data.domain import Domain, Hierarchy, Int64Array
from ...data.kept_rules import groups_that_break

MOST_TYPES = 200_000


def type_count(domain: Domain) -> int:
    """The number of types."""
    per_kind = _kinds(domain)
    members = sum(
        prod(comb(len(kind) + n - 1, n) for kind, n in zip(per_kind, numbers, strict=True) if n)
        for numbers in _compositions(domain)
    )
    return prod(domain.group_values[:-1]) * members


def require_few_types(domain: Domain) -> None:
    """Raises UserError for too many types."""
    types = type_count(domain)
    if types > MOST_TYPES:
        raise UserError(
            f"kind 'mwem' keeps a weight for every group that can be: {types:,} are more than"
            f" {MOST_TYPES:,}; choose kind 'independent' or 'hpd-fixed', or declare fewer"
            " attributes, fewer values or smaller groups"
        )


def group_types(domain: Domain) -> tuple[Hierarchy, NDArray[np.float64]]:
    """A group of every type, and the prior distribution over types.

    Under the prior every composition (the size, or the numbers of spouses, children and others) is
    equally likely, and all members and group attributes are uniform and independent. The weight of
    a type is the sum over all orders of its members. Types that break a rule of the domain are left
    out. Raises UserError if there are too many types.
    """
    require_few_types(domain)
    kinds, compositions = _kinds(domain), list(_compositions(domain))
    members_by_composition: list[Int64Array] = []
    weights: list[NDArray[np.float64]] = []
    for numbers in compositions:
        rows, weight = np.zeros((1, 0), np.int64), np.ones(1)
        for kind, n in zip(kinds, numbers, strict=True):
            chosen, chance = _multisets(len(kind), n)
            members = kind[chosen].reshape(len(chosen), -1)
            a, b = len(rows), len(members)
            rows = np.concatenate([np.repeat(rows, b, axis=0), np.tile(members, (a, 1))], axis=1)
            weight = np.repeat(weight, b) * np.tile(chance, a)
        members_by_composition.append(rows)
        weights.append(weight / len(compositions))

    values, width = domain.group_values[:-1], len(domain.person_values)
    attributes = _grid(values)
    sizes = np.concatenate([np.full(len(r), r.shape[1] // width) for r in members_by_composition])
    people = np.concatenate([r.reshape(-1, width) for r in members_by_composition])
    groups = np.concatenate(
        [
            np.repeat(attributes, len(sizes), axis=0),
            np.tile(sizes - 1, len(attributes))[:, None],
        ],
        axis=1,
    )
    group_of = np.repeat(np.arange(len(groups)), np.tile(sizes, len(attributes)))
    types = Hierarchy(domain, groups, np.tile(people, (len(attributes), 1)), group_of)
    return _kept_types(types, np.tile(np.concatenate(weights), len(attributes)) / len(attributes))


def _kept_types(
    types: Hierarchy, weights: NDArray[np.float64]
) -> tuple[Hierarchy, NDArray[np.float64]]:
    """The types that keep every rule, with weights of sum 1."""
    broken = [groups_that_break(types, rule) for rule in types.domain.rules]
    if not broken:
        return types, weights
    kept = ~np.any(broken, axis=0)
    members = kept[types.group_of]
    group_of = (np.cumsum(kept) - 1)[types.group_of[members]]
    remaining = Hierarchy(types.domain, types.groups[kept], types.people[members], group_of)
    return remaining, weights[kept] / weights[kept].sum()


def _kinds(domain: Domain) -> list[Int64Array]:
    """By kind of member, all possible attributes: (n, person columns) codes."""
    people = _grid(domain.person_values)
    if domain.roles is None:
        return [people]
    role = people[:, domain.role_column]
    codes = domain.role_codes
    return [*(people[role == c] for c in codes), people[~np.isin(role, codes)]]


def _grid(values: tuple[int, ...]) -> Int64Array:
    """(combinations, columns): all combinations of codes."""
    if not values:
        return np.zeros((1, 0), np.int64)
    return np.indices(values).reshape(len(values), -1).T


def _compositions(domain: Domain) -> Iterator[tuple[int, ...]]:
    """The possible numbers of members of every kind in a group."""
    max_size = domain.most
    if domain.roles is None:
        yield from ((n,) for n in range(1, max_size + 1))
        return
    other_bound = max_size if len(domain.person[domain.role_column].values) > 3 else 1
    for numbers in product((1,), (0, 1), range(domain.roles.children + 1), range(other_bound)):
        if sum(numbers) <= max_size:
            yield numbers


def _multisets(values: int, n: int) -> tuple[Int64Array, NDArray[np.float64]]:
    """All multisets of n values, (multisets, n), and the share of n-tuples of every multiset."""
    multisets = np.array(list(combinations_with_replacement(range(values), n)), np.int64)
    multisets = multisets.reshape(-1 if n else 1, n)
    chance, run = np.ones(len(multisets)), np.zeros(len(multisets))
    for j in range(n):
        run = (
            np.where(multisets[:, j] == multisets[:, j - 1], run + 1, 1)
            if j
            else np.ones(len(multisets))
        )
        chance *= (j + 1) / (run * values)
    return multisets, chance
