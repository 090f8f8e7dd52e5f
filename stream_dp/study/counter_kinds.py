"""The registry of stream counters: their names in a study file, with their sentences."""

from __future__ import annotations

from .families import DescribedKind


class CounterKind(DescribedKind):
    """A stream counter in a study file.

    `stream_dp/continual/counters/` has a module with the name of each kind, which defines its
    `METHOD`. `tests/kit/counter_contract.py` states what a counter owes.
    """

    TREE = "tree", "The binary tree (Bun et al. 2024, Algorithm 3)."
    HONAKER = "honaker", "The binary tree with estimates from below (Honaker 2015)."
    SQRT = "sqrt", "The square root of the prefix sums (Henzinger, Upadhyay, Upadhyay 2023)."
    NORMALISED = "normalised", "The square root with columns of equal norm."
    GAMMA2 = "gamma2", "The least worst error of a single counter, for up to 128 periods."
    UNBOUNDED = "unbounded", "A counter whose noise does not depend on the horizon."
