"""JAX, an extra: the one place that imports it, or says how to install it.

Precision and devices are JAX's defaults (float32, the first device). Memory of a GPU is taken as
it is needed, so that a fit shares it with others; the environment may say otherwise.
JAX's generators initialise parameters; they never make privacy noise.
"""

from __future__ import annotations

import os

from stream_dp.errors import UserError

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read when JAX starts a device

try:
    import jax
except ImportError:
    raise UserError("this release needs JAX: pip install 'stream-dp[batch]'") from None

import jax.numpy as jnp

__all__ = ["jax", "jnp"]
