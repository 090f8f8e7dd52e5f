"""Adam on the weighted squared error, one compiled program for all rounds of one shape.

Adam: Kingma, Ba 2015, Algorithm 1; with a decay AdamW: Loshchilov, Hutter 2019, Algorithm 2. By it
what the answers do not speak of goes back to 0, the uniform distribution. Everything here sees
noisy answers and public numbers only: it is post-processing, and deterministic.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..extra import jax, jnp
from .answers import Logits, all_shares, loss_and_gradient
from .layout import ModelLayout, QueryChunks

Params = dict[str, NDArray[np.float32]]
LATENT = "latent"  # fixed Gaussian columns that a generator starts from; never trained

_FIRST, _SECOND, _SMALL = 0.9, 0.999, 1e-8


class FitSummary(NamedTuple):
    """What one fit did.

    before, after: the error of the given parameters and of the best iterate; steps: updates made;
    finite: whether all of them were finite, else it stopped at the first that was not.
    """

    before: float
    after: float
    steps: int
    finite: bool


class _Carry(NamedTuple):
    step: jax.Array
    params: Logits
    first: Logits
    second: Logits
    best: Logits
    least: jax.Array
    before: jax.Array
    finite: jax.Array


def head_logits(layout: ModelLayout, params: Logits) -> Logits:
    """Logits (length, K) of every head: the parameters themselves, or what a network says.

    With LATENT among the parameters, a multi-headed perceptron (ReLU, its weights (out, in))
    maps the K columns of LATENT to the logits: HPD-Gen. Without it: HPD-Fixed.
    """
    if LATENT not in params:
        return {name: params[name] for name in layout.heads}
    x, depth = params[LATENT], 0
    while f"hidden{depth}.weight" in params:
        x = jax.nn.relu(_dense(params, f"hidden{depth}", x))
        depth += 1
    return {name: _dense(params, name, x) for name in layout.heads}


def _dense(params: Logits, name: str, x: jax.Array) -> jax.Array:
    output: jax.Array = params[f"{name}.weight"] @ x + params[f"{name}.bias"][:, None]
    return output


@partial(jax.jit, static_argnums=0)
def compiled_shares(layout: ModelLayout, params: Logits, chunks: QueryChunks) -> jax.Array:
    """(chunks, length) shares."""
    return all_shares(layout, head_logits(layout, params), chunks)


@partial(jax.jit, static_argnums=0)
def compiled_logits(layout: ModelLayout, params: Logits) -> Logits:
    """The logits, for those who draw samples."""
    return head_logits(layout, params)


@partial(jax.jit, static_argnums=0)
def adam(
    layout: ModelLayout,
    params: Logits,
    chunks: QueryChunks,
    steps: jax.Array,
    rate: jax.Array,
    decay: jax.Array,
) -> tuple[Logits, tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    """The iterate with the least error among the given parameters and `steps` updates of them.

    Stops where the error or a parameter is no longer finite; the result never is. Steps, rate and
    decay are arguments of the program, not parts of it. Returns parameters, and the fields of
    Fitted.
    """
    fixed = {k: v for k, v in params.items() if k == LATENT}
    trained = {k: v for k, v in params.items() if k != LATENT}
    rows = next(iter(head_logits(layout, params).values())).shape[1]

    def error(trained: Logits) -> tuple[jax.Array, Logits]:
        heads, back = jax.vjp(lambda p: head_logits(layout, {**p, **fixed}), trained)
        value, gradient = loss_and_gradient(layout, heads, chunks)
        return value, back(gradient)[0]

    def update(c: _Carry) -> _Carry:
        value, gradient = error(c.params)
        finite = jnp.isfinite(value)
        for array in c.params.values():
            finite = finite & jnp.isfinite(array).all()
        better = finite & (value < c.least)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), c.params, c.best)
        first = jax.tree.map(lambda m, g: _FIRST * m + (1 - _FIRST) * g, c.first, gradient)
        second = jax.tree.map(lambda v, g: _SECOND * v + (1 - _SECOND) * g * g, c.second, gradient)
        t = (c.step + 1).astype(value.dtype)
        # A row's gradient falls with the number of rows, and what Adam adds to it must as well.
        small = _SMALL / rows

        def moved(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            along = (m / (1 - _FIRST**t)) / (jnp.sqrt(v / (1 - _SECOND**t)) + small)
            return p - rate * (along + decay * p)

        return _Carry(
            c.step + 1,
            jax.tree.map(moved, c.params, first, second),
            first,
            second,
            best,
            jnp.where(better, value, c.least),
            jnp.where(c.step == 0, value, c.before),
            finite,
        )

    zero = jax.tree.map(jnp.zeros_like, trained)
    least = jnp.array(jnp.inf, jnp.float32)
    start = _Carry(jnp.array(0), trained, zero, zero, trained, least, least, jnp.array(True))
    # The last pass only looks at the last update.
    end = jax.lax.while_loop(lambda c: (c.step <= steps) & c.finite, update, start)
    return {**end.best, **fixed}, (end.before, end.least, end.step - 1, end.finite)
