"""Imports JAX and optax, or says how to install them. No other module imports them directly.

Precision and device are JAX's defaults (float32, the first device). GPU memory is allocated as it
is needed, not in advance, so that a fit shares the GPU with other processes; the environment
variable XLA_PYTHON_CLIENT_PREALLOCATE overrides this. JAX's random numbers initialise parameters;
they are never privacy noise.
"""

from __future__ import annotations

import os

from stream_dp.errors import missing_extra

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read when JAX starts a device

try:
    import jax
    import optax
except ImportError:
    raise missing_extra("this release needs JAX", "batch") from None

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

__all__ = ["jax", "jnp", "optax", "ravel_pytree"]
