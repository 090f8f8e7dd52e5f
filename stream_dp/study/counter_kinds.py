"""The registry of stream counters: their names in a study file, with their sentences."""

from __future__ import annotations

from .families import DescribedKind


class CounterKind(DescribedKind):
    """A stream counter in a study file.

    `stream_dp/continual/counters/` has a module with the name of each kind, which defines its
    `METHOD`. `tests/kit/counter_contract.py` states what a counter owes.
    """

    TREE = "tree", "The binary tree (Bun et al. 2024, Algorithm 3)."
    UNBOUNDED = "unbounded", "A counter whose noise does not depend on the horizon."
