"""The network of HPD-Gen, which computes the rows of a mixture (Liu and Wu 2022, section 4.1).

A perceptron with ReLU maps K Gaussian columns, which stay as they are, to the logits of K rows: one
output layer for each head, that is for the group's attributes, its size and its members. Weights
are (out, in). The parameters are a flat dict of arrays, as those of HPD-Fixed. Needs JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...jax_extra import jax, on_all_devices
from .model_arrays import ModelLayout
from .product_answers import Logits

LATENT = "latent"  # the Gaussian columns (COLUMNS, K), which are not trained
COLUMNS = 32
BIAS = ".bias"
_FIRST_SLOT = "person.weight"


def network_shapes(
    layout: ModelLayout, hidden: tuple[int, ...], rows: int
) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter. hidden: the sizes of the hidden layers."""
    widths = (COLUMNS, *hidden)
    dense = {f"hidden{i}": pair for i, pair in enumerate(pairwise(widths))}
    dense |= {name: (widths[-1], length) for name, length in layout.heads.items()}
    shapes: dict[str, tuple[int, ...]] = {LATENT: (COLUMNS, rows)}
    for name, (wide, out) in dense.items():
        shapes |= {f"{name}.weight": (out, wide), name + BIAS: (out,)}
    return shapes


def first_network(
    layout: ModelLayout, shapes: Mapping[str, tuple[int, ...]], seed: int, spread: float
) -> dict[str, NDArray[np.float32]]:
    """Random parameters, whose logits have about the variance `spread`.

    All members begin alike: the output weights of every slot are those of the first.
    """
    keys, params = jax.random.split(jax.random.key(seed), len(shapes)), {}
    for key, (name, shape) in zip(keys, shapes.items(), strict=True):
        if name.endswith(BIAS):
            params[name] = np.zeros(shape, np.float32)
            continue
        gain = 1.0
        if name != LATENT:
            gain = (2 if name.startswith("hidden") else spread) / shape[1]
        params[name] = np.asarray(jax.random.normal(key, shape) * gain**0.5)
    members = params[_FIRST_SLOT]
    first = members[: len(members) // layout.slots]
    return {**params, _FIRST_SLOT: np.tile(first, (layout.slots, 1))}


def head_logits(layout: ModelLayout, params: Logits) -> Logits:
    """The logits (length, K) of every head: the parameters themselves, or a network's output."""
    if LATENT not in params:
        return on_all_devices(params, axis=1)
    x, depth = params[LATENT], 0
    while f"hidden{depth}.weight" in params:
        x = jax.nn.relu(_dense(params, f"hidden{depth}", x))
        depth += 1
    return on_all_devices({name: _dense(params, name, x) for name in layout.heads}, axis=1)


def _dense(params: Logits, name: str, x: jax.Array) -> jax.Array:
    output: jax.Array = params[f"{name}.weight"] @ x + params[name + BIAS][:, None]
    return output
