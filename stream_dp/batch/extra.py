"""JAX, an extra: the one place that imports it, or says how to install it.

Nothing global is set: precision and devices are JAX's defaults (float32, the first device).
JAX's generators initialise parameters; they never make privacy noise.
"""

from __future__ import annotations

from ..errors import UserError

try:
    import jax
except ImportError:
    raise UserError("this release needs JAX: pip install 'stream-dp[batch]'") from None

import jax.numpy as jnp

__all__ = ["jax", "jnp"]
