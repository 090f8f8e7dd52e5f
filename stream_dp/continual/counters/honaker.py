"""The binary tree counter with estimates from below."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .methods import CounterMethod
from .stream_counters import Counter


@lru_cache(maxsize=512)
def honaker(n: int) -> Counter:
    """The binary tree of all complete nodes, with estimates from below (Honaker 2015).

    A node of height h is estimated from its own measurement (variance 1) and from the estimates of
    its two halves (variance 2 v_{h-1}), weighted by inverse variance. So v_h = 2 v_{h-1} /
    (2 v_{h-1} + 1), that is v_h = 2^h / (2^{h+1} - 1), and the weight of the node's own
    measurement is v_h. By induction this is the best linear unbiased estimate from the nodes
    inside it. The sum to i adds the nodes of i's binary digits. These nodes are disjoint and
    contain every complete node up to i, so the sum is the best linear unbiased estimate at i.
    """
    nodes = [(i, h) for i in range(1, n + 1) for h in range((i & -i).bit_length())]
    row = {node: r for r, node in enumerate(nodes)}
    encode = np.zeros((len(nodes), n), np.int64)
    inside = np.zeros((len(nodes), len(nodes)))
    decode = np.zeros((n, len(nodes)))
    for r, (i, h) in enumerate(nodes):
        encode[r, i - (1 << h) : i] = 1
        weight = (1 << h) / ((2 << h) - 1)
        inside[r, r] = weight
        if h:
            halves = row[i, h - 1], row[i - (1 << (h - 1)), h - 1]
            inside[r] += (1 - weight) * (inside[halves[0]] + inside[halves[1]])
        if h == (i & -i).bit_length() - 1:
            decode[i - 1] = inside[r]
            if earlier := i - (1 << h):
                decode[i - 1] += decode[earlier - 1]
    return Counter(encode, decode, np.array([i for i, _ in nodes], np.int64))


METHOD = CounterMethod(
    title="binary tree counters with estimates from below (Honaker 2015)",
    of_length=honaker,
    whole_matrices=True,
)
