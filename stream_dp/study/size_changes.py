"""A person's changes in the sizes of a level, by relation, and their cost.

Let one person join a place of size s (or leave one of size s + 1); under `replace_one` a person
leaves a place of size t > 0 and joins one of size s. What changes in one region:
- cumulative counts: one place less of at most s people. A move adds +1 at t - 1, elsewhere or at s,
  where it cancels.
- sorted sizes: they differ in one entry, by 1. A move changes a second one, or the same one twice,
  then back to what it was.
A person is in one region of a level. A cap of the sizes hides changes above it and adds none. So
the worst changes are those below, whatever is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from stream_dp.privacy.geometric import geometric_rho

RELATIONS = ("add_remove", "replace_one")  # under which sizes are a secret
# By relation, by how much each count changes, at the worst.
WORST_CHANGES: Mapping[str, tuple[int, ...]] = {"add_remove": (1,), "replace_one": (1, 1)}


def squared_change(relation: str) -> int:
    """The squared L2 sensitivity of a level."""
    return sum(k * k for k in WORST_CHANGES[relation])


def geometric_decay(relation: str, epsilon: Fraction) -> Fraction:
    """The decay of double-geometric noise for an (epsilon)-differentially private level."""
    return epsilon / sum(WORST_CHANGES[relation])


def geometric_cost(relation: str, epsilon: Fraction) -> Fraction:
    """The rho of the noise, at most 1e-12 too large; see `privacy.geometric`."""
    return geometric_rho(geometric_decay(relation, epsilon), WORST_CHANGES[relation])
