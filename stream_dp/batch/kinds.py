"""The kinds of batch releases: where each one's synthesizer is, found when it is needed.

JAX is loaded only for a kind that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from stream_dp.errors import UserError

from .base import Synthesizer


@dataclass(frozen=True)
class Kind:
    """module: of this package, with a function `fit`; title: the method in words."""

    module: str
    title: str
    jax: bool = True


KINDS = {
    "independent": Kind("independent", "independent attributes from noisy marginals", jax=False),
    "mwem": Kind("mwem.mwem", "multiplicative weights over groups and members (MWEM)", jax=False),
    "hpd-fixed": Kind("hpd.synthesizer", "hierarchical product distributions, fixed (HPD-Fixed)"),
    "hpd-gen": Kind("hpd.synthesizer", "hierarchical product distributions, generated (HPD-Gen)"),
}


def title(kind: str) -> str:
    return KINDS[kind].title


def check(kinds: Iterable[str]) -> None:
    """Raises UserError unless these kinds can be fitted here; nothing is loaded."""
    for kind in kinds:
        found = KINDS[kind]
        if find_spec(f"{__package__}.{found.module}") is None:
            raise UserError(f"kind '{kind}': this version of stream-dp cannot fit it")
        if found.jax and find_spec("jax") is None:
            raise UserError(f"kind '{kind}' needs JAX: pip install 'stream-dp[batch]'")


def synthesizer(kind: str) -> Synthesizer:
    """Load a kind's. Raises UserError where it is not there, or what it needs is not."""
    check([kind])
    return cast(Synthesizer, import_module(f"{__package__}.{KINDS[kind].module}").fit)
