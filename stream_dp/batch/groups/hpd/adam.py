"""Adam on the weighted squared error; rounds of equal shape share a compiled program.

Adam: Kingma and Ba 2015, Algorithm 1. With a decay it is AdamW: Loshchilov and Hutter 2019,
Algorithm 2. The decay moves parameters that no answer depends on back to 0: logits to the uniform
distribution, and a network's weights to equal rows. This is deterministic post-processing of noisy
answers and public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ...jax_extra import jax, jnp, optax, ravel_pytree
from .generator_network import BIAS, LATENT, head_logits
from .model_arrays import Array, ModelLayout, QueryChunks
from .product_answers import Logits, all_shares, loss_and_gradient
from .row_supports import RowSupports

Params = Mapping[str, Array]  # NumPy's, or those of a device
_SMALL = 1e-8


class AdamSettings(NamedTuple):
    """How Adam moves the parameters.

    steps: updates, at most.
    rate: the size of an update.
    decay: the part of themselves that parameters lose at each update, over the rate, times the
        layout's factors. A network's biases lose nothing: they keep what all rows have in common.
    """

    steps: int
    rate: float
    decay: float = 0

    def as_arguments(self) -> tuple[np.int32, np.float32, np.float32]:
        """The settings in fixed types: a single compiled program serves all settings."""
        return np.int32(self.steps), np.float32(self.rate), np.float32(self.decay)


class FitSummary(NamedTuple):
    """The course of a fit.

    first_error: the error of the first parameters.
    best_error: the error of the best iterate.
    steps: the number of updates.
    finite: whether all of them were finite; a fit stops at the first that is not.
    """

    first_error: float
    best_error: float
    steps: int
    finite: bool


class _Carry(NamedTuple):
    """The state between two updates; `moments` is Adam's own.

    params, best: all parameters in one vector, so that an update is few operations.
    """

    step: jax.Array
    params: jax.Array
    moments: optax.OptState
    best: jax.Array
    best_error: jax.Array
    first_error: jax.Array
    finite: jax.Array


@partial(jax.jit, static_argnums=0)
def compiled_shares(
    layout: ModelLayout, params: Logits, chunks: QueryChunks, supports: RowSupports | None = None
) -> jax.Array:
    """(chunks, rows, columns) answers, as shares of groups or people."""
    return all_shares(layout, head_logits(layout, params), chunks, supports)


@partial(jax.jit, static_argnums=0)
def compiled_logits(layout: ModelLayout, params: Logits) -> Logits:
    """The logits of every head, from which samples are drawn."""
    return head_logits(layout, params)


@partial(jax.jit, static_argnums=0)
def adam(
    layout: ModelLayout,
    params: Logits,
    chunks: QueryChunks,
    settings: tuple[Array, Array, Array],
    supports: RowSupports | None = None,
) -> tuple[Logits, tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    """The iterate of least error, among `params` and all updates, and the fields of `FitSummary`.

    Stops as soon as the error or a parameter is not finite; the result is finite if `params` and
    their error are. settings: steps, rate and decay (`AdamSettings.as_arguments`), which are
    arguments of the compiled program, so that a change does not compile it anew. supports: of the
    mixture rows; the gradient of what they leave out is 0.
    """
    steps, rate, decay = settings
    fixed = {name: p for name, p in params.items() if name == LATENT}
    params = {name: p for name, p in params.items() if name != LATENT}
    rows = fixed[LATENT].shape[1] if fixed else next(iter(params.values())).shape[1]

    # The gradient of a row is proportional to 1 / rows, so Adam's epsilon must be as well. Rate and
    # decay are arguments of the program, and so are applied outside of the library's transform.
    biases: dict[str, Array] = {name: 0 for name in params if name.endswith(BIAS)}
    decays = {**layout.decay_parts, **biases}
    factors = {name: jnp.broadcast_to(decays.get(name, 1), p.shape) for name, p in params.items()}
    vector, by_name = ravel_pytree(params)
    factor, _ = ravel_pytree({name: f.astype(jnp.float32) for name, f in factors.items()})
    transform = optax.scale_by_adam(eps=_SMALL / rows)

    def loss(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The error and its gradient, through the network of HPD-Gen."""
        heads, back = jax.vjp(lambda v: head_logits(layout, {**by_name(v), **fixed}), vector)
        value, gradient = loss_and_gradient(layout, heads, chunks, supports)
        return value, back(gradient)[0]

    def update(c: _Carry) -> _Carry:
        """Evaluates the parameters p, keeps them if they are the best, and moves them.

        p <- p - rate (m / (sqrt(v) + epsilon) + decay d p), with Adam's corrected moments m and v
        and the layout's factor d of the decay (AdamW, Algorithm 2).
        """
        value, gradient = loss(c.params)
        finite = jnp.isfinite(value) & jnp.isfinite(c.params).all()
        better = finite & (value < c.best_error)
        direction, moments = transform.update(gradient, c.moments)
        return _Carry(
            step=c.step + 1,
            params=c.params - rate * (direction + decay * factor * c.params),
            moments=moments,
            best=jnp.where(better, c.params, c.best),
            best_error=jnp.where(better, value, c.best_error),
            first_error=jnp.where(c.step == 0, value, c.first_error),
            finite=finite,
        )

    infinite = jnp.array(jnp.inf, jnp.float32)
    start = _Carry(
        step=jnp.array(0),
        params=vector,
        moments=transform.init(vector),
        best=vector,
        best_error=infinite,
        first_error=infinite,
        finite=jnp.array(True),
    )
    # The last pass only evaluates the last update.
    end = jax.lax.while_loop(lambda c: (c.step <= steps) & c.finite, update, start)
    return {**by_name(end.best), **fixed}, (
        end.first_error,
        end.best_error,
        end.step - 1,
        end.finite,
    )
