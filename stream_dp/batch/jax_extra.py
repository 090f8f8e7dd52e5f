"""Imports JAX and optax, or says how to install them. No other module imports them directly.

Precision is JAX's default, float32. Where this process has several devices, the rows of a mixture
are spread over all of them. GPU memory is allocated as it is needed, not in advance, so that a fit
shares the GPU with other processes; the environment variable XLA_PYTHON_CLIENT_PREALLOCATE
overrides this. JAX's random numbers initialise parameters; they are never privacy noise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_dp.errors import missing_extra

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read when JAX starts a device

try:
    import jax
    import optax
except ImportError:
    raise missing_extra("this release needs JAX", "batch") from None

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["jax", "jnp", "on_all_devices", "optax", "ravel_pytree"]


def on_all_devices(arrays: Mapping[str, jax.Array], axis: int) -> dict[str, jax.Array]:
    """The arrays of a compiled program, spread over the devices of this process along an axis.

    With one device, or where their number does not divide the axis, they stay as they are.
    """
    devices = jax.local_devices()
    length = next(iter(arrays.values())).shape[axis]
    if len(devices) == 1 or length % len(devices):
        return dict(arrays)
    constrained: Any = jax.lax.with_sharding_constraint
    partition: Any = PartitionSpec
    parts = partition(*[None] * axis, "rows")
    spread = NamedSharding(Mesh(np.array(devices), ("rows",)), parts)
    return {name: constrained(array, spread) for name, array in arrays.items()}
