"""The probabilities of the bands of leads in a row of the mixture.

In the notation of `product_answers.py`, for one column of numbers: h(a) is the probability that the
head has the number at position a, and t_j(u) the one that child j has a number at position u or
above. The highest number of the children is at u or above with probability
    f(u) = sum_j w_j t_j(u) prod_{i<j} (1 - t_i(u)).
The head's lead is less than d with probability sum_a h(a) f(a - d + 1). A band is a difference of
two of these; the first band, of children above the head, is the first of these itself.
"""

from __future__ import annotations

import numpy as np

from ...extra import jax, jnp
from ..workload.head_leads import band_starts
from .model_arrays import ModelLayout


def lead_table(layout: ModelLayout, person: jax.Array, filled: jax.Array) -> jax.Array:
    """(values, K) the probability of a band, at the row of the code with the band's number.

    person: (slots, values + 1, K), the table of persons.
    filled: (slots, K), w for any size.
    """
    table = jnp.zeros((layout.person_rows if layout.leads else 0, person.shape[-1]), person.dtype)
    starts = np.cumsum([0, *layout.person_values])
    for column, codes in layout.leads:
        start = int(starts[column])
        bands = _bands(layout, person[:, start + np.array(codes)], filled)
        table = table.at[start : start + len(bands)].set(bands)
    return table


def _bands(layout: ModelLayout, numbers: jax.Array, filled: jax.Array) -> jax.Array:
    """(bands, K) probabilities. numbers: (slots, n, K), in increasing order of the numbers."""
    assert layout.types is not None
    n = numbers.shape[1]
    reached, nobody = jnp.zeros(numbers.shape[1:], numbers.dtype), jnp.ones((), numbers.dtype)
    for j in range(2, 2 + layout.types.children):
        at_least = jnp.cumsum(numbers[j, ::-1], axis=0)[::-1]
        reached = reached + filled[j] * at_least * nobody
        nobody = nobody * (1 - at_least)
    reached = jnp.concatenate([reached, jnp.zeros_like(reached[:1])])  # none is above all numbers
    least = np.arange(n) + 1 - np.array([*band_starts(n), n])[:, None]
    less = (numbers[0] * reached[np.clip(least, 0, n)]).sum(axis=1)
    return jnp.concatenate([less[:1], jnp.diff(less, axis=0)])
