"""The tree of the pairs picked so far, and the pairs that it has room for. All of it is public."""

from __future__ import annotations

from functools import lru_cache

from ..measure.residual_counts import Columns
from .junction_tree import JunctionTree


@lru_cache(maxsize=4096)
def _grown(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...]
) -> JunctionTree:
    if not pairs:
        return JunctionTree.of(sizes, base)
    before = _grown(sizes, base, pairs[:-1])
    first, second = pairs[-1]
    if any({first, second} <= {*clique} for clique in before.cliques):
        return before
    grown, anew = before.extended(first, second), JunctionTree.of(sizes, (*base, *pairs))
    return anew if anew.cells < grown.cells else grown


def grown_tree(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...]
) -> JunctionTree:
    """The tree of sets to begin with, and of pairs in the order in which they were picked.

    Each joins the tree before it, or all are put in a new one where that is smaller: so it has room
    for every pair that `open_pairs` named.
    """
    for count in range(0, len(pairs), 200):  # so that the next call does not go deep
        _grown(sizes, base, pairs[:count])
    return _grown(sizes, base, pairs)


def open_pairs(
    sizes: tuple[int, ...], base: tuple[Columns, ...], pairs: tuple[Columns, ...], most: int
) -> set[Columns]:
    """The pairs that may be picked next, so that the tree has at most so many cells."""
    tree = grown_tree(sizes, base, pairs)
    result = set[Columns]()
    for first in range(len(sizes)):
        added = tree.growth(first)
        result |= {
            (first, c) for c in range(first + 1, len(sizes)) if tree.cells + added[c] <= most
        }
    return result
