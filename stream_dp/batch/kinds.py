"""The kinds of batch releases and their synthesizers.

A synthesizer's module is imported on first use, so that JAX is imported only for a kind that needs
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from stream_dp.errors import UserError

from .base import Synthesizer


@dataclass(frozen=True)
class SynthesizerKind:
    """Where a synthesizer is implemented.

    module: the name of its module, below this package.
    function: the name of the `base.Synthesizer` in that module.
    title: the method in words.
    jax: whether it needs JAX, the `batch` extra.
    """

    module: str
    function: str
    title: str
    jax: bool = True


KINDS = {
    "mixture": SynthesizerKind(
        "people.synthesizer",
        "fit_people",
        "residuals of people's columns, a mixture of products of blocks",
    ),
    "independent": SynthesizerKind(
        "independent", "fit_independent", "independent attributes from noisy marginals", jax=False
    ),
    "mwem": SynthesizerKind(
        "mwem.mwem",
        "fit_mwem",
        "multiplicative weights over groups and members (MWEM)",
        jax=False,
    ),
    "hpd-fixed": SynthesizerKind(
        "hpd.synthesizer",
        "fit_mixture",
        "hierarchical product distributions, fixed (HPD-Fixed)",
    ),
    "hpd-gen": SynthesizerKind(
        "hpd.synthesizer",
        "fit_mixture",
        "hierarchical product distributions, generated (HPD-Gen)",
    ),
}


def kind_title(kind: str) -> str:
    """The name of a kind's method, in words."""
    return KINDS[kind].title


def require_available(kinds: Iterable[str]) -> None:
    """Raises UserError unless this installation can fit these kinds. Imports no module."""
    for kind in kinds:
        entry = KINDS[kind]
        if find_spec(f"{__package__}.{entry.module}") is None:
            raise UserError(f"kind '{kind}': this version of stream-dp cannot fit it")
        if entry.jax and find_spec("jax") is None:
            raise UserError(f"kind '{kind}' needs JAX: pip install 'stream-dp[batch]'")


def load_synthesizer(kind: str) -> Synthesizer[Any, Any]:
    """The synthesizer of a kind. Raises UserError unless this installation can fit it."""
    require_available([kind])
    module = import_module(f"{__package__}.{KINDS[kind].module}")
    return cast(Synthesizer[Any, Any], getattr(module, KINDS[kind].function))
