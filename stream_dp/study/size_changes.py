"""A person's changes in the sizes of a level, by method and relation, and their cost.

Let one person join a place of size s (or leave one of size s + 1); under `replace_one` a person
leaves a place of size t > 0 and joins one of size s. What changes in one region:
- the histogram: one place less of size s and one more of size s + 1. A move adds +1 at t - 1 and
  -1 at t. The two changes are (-1, +1) at (s, s + 1) and (+1, -1) at (t - 1, t). They meet in no
  place; or in one, with equal signs (s = t or s + 1 = t - 1), which gives 2, 1 and 1; or in two
  and cancel (s + 1 = t).
- cumulative counts: one place less of at most s people. A move adds +1 at t - 1, elsewhere or at s,
  where it cancels.
- sorted sizes: they differ in one entry, by 1. A move changes a second one, or the same one twice,
  then back to what it was.
A person is in one region of a level. A move between two regions changes four counts of histograms
by 1 each, two of the others. A cap of the sizes hides changes above it and adds none. So the worst
changes are those below: 2, 1, 1 has the largest square (6 and not 4), and costs most with
double-geometric noise, where a change of 2 costs more than two of 1; its sum of absolute changes is
4 as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from stream_dp.privacy.geometric import geometric_rho

RELATIONS = ("add_remove", "replace_one")  # under which sizes are a secret
_ONE_OR_TWO = {"add_remove": (1,), "replace_one": (1, 1)}
# By method and relation, by how much each count changes, at the worst.
WORST_CHANGES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "histogram": {"add_remove": (1, 1), "replace_one": (2, 1, 1)},
    "sorted": _ONE_OR_TWO,
    "cumulative": _ONE_OR_TWO,
    "cumulative-squares": _ONE_OR_TWO,
}


def squared_change(method: str, relation: str) -> int:
    """The squared L2 sensitivity of a level."""
    return sum(k * k for k in WORST_CHANGES[method][relation])


def geometric_decay(method: str, relation: str, epsilon: Fraction) -> Fraction:
    """The decay of double-geometric noise for an (epsilon)-differentially private level."""
    return epsilon / sum(WORST_CHANGES[method][relation])


def geometric_cost(method: str, relation: str, epsilon: Fraction) -> Fraction:
    """The rho of the noise, at most 1e-12 too large; see `privacy.geometric`."""
    decay = geometric_decay(method, relation, epsilon)
    return geometric_rho(decay, WORST_CHANGES[method][relation])
