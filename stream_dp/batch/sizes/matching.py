"""Matches the groups of a region with the groups of its children: smallest to smallest.

Source: Kuo et al. 2018, section 5.2, on runs of groups of equal size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .histogram import Estimate, Int64Array

NOWHERE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Matching:
    """Pairs of runs with their number of common groups, each array int64 (pairs,).

    parent: the run of the parent.
    child: the child.
    run: the run of that child.
    groups: the number of groups in both runs.
    """

    parent: Int64Array
    child: Int64Array
    run: Int64Array
    groups: Int64Array


def matched(parent: Estimate, children: Sequence[Estimate]) -> Matching:
    """Matches the parent's groups with the children's, both in the order of size.

    No other matching has a smaller sum of differences of size. Where several children have groups
    of one size, these meet the parent's runs in proportion to their numbers, with largest
    remainders rounded up. Raises ValueError unless the children have as many groups as the parent.
    """
    child = np.repeat(np.arange(len(children)), [len(c.groups) for c in children])
    run = np.concatenate([np.arange(len(c.groups)) for c in children])
    value = np.concatenate([c.value for c in children])
    groups = np.concatenate([c.groups for c in children])
    order = np.argsort(value, kind="stable")
    child, run, value, groups = child[order], run[order], value[order], groups[order]
    if groups.sum() != parent.groups.sum():
        raise ValueError("a parent's groups are not those of its children")
    meetings: list[tuple[int, Int64Array, Int64Array]] = []
    free = parent.groups.tolist()
    j = start = 0
    for end in (np.flatnonzero(np.diff(value, append=np.inf)) + 1).tolist():
        tied, rest = groups[start:end], int(groups[start:end].sum())
        while rest:
            j += not free[j]
            share = min(free[j], rest)
            meeting = tied if share == rest else in_proportion(tied, share)
            met = np.flatnonzero(meeting)
            meetings.append((j, met + start, meeting[met]))
            tied, rest, free[j] = tied - meeting, rest - share, free[j] - share
        start = end
    ordered = np.concatenate([NOWHERE, *(runs for _, runs, _ in meetings)])
    return Matching(
        parent=np.concatenate([NOWHERE, *(np.full(len(runs), j) for j, runs, _ in meetings)]),
        child=child[ordered],
        run=run[ordered],
        groups=np.concatenate([NOWHERE, *(shared for _, _, shared in meetings)]),
    )


def in_proportion(counts: Int64Array, share: int) -> Int64Array:
    """`share` split in whole numbers, in proportion to positive `counts` and at most these.

    Largest remainders are rounded up, the first of equal ones first. `share` is at most the sum.
    """
    total = int(counts.sum())
    if share * int(counts.max()) >> 62:
        scaled = [share * count for count in counts.tolist()]
        shares = np.array([product // total for product in scaled], np.int64)
        remainders = np.array([product % total for product in scaled], np.int64)
    else:
        shares, remainders = np.divmod(share * counts, total)
    up = share - int(shares.sum())
    shares[np.argsort(-remainders, kind="stable")[:up]] += 1
    return shares
