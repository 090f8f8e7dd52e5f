"""Hierarchical product distributions: HPD-Fixed and HPD-Gen.

Source: Liu, Wu, Private synthetic data with hierarchical structure (arXiv 2206.05942). A mixture
of K rows, each a product of distributions over a group's attributes, its size or composition, and
every member's attributes. HPD-Fixed has the logits as parameters; HPD-Gen makes them with a
network from K fixed Gaussian columns. What they answer: `answers.py`; how they are fitted:
`fit.py`; how households are drawn: `draw.py`. Needs JAX, the `batch` extra.

A model is a frozen value, its parameters are a flat dict of float32 arrays: numpy in, numpy out.
Nothing here sees confidential data: what is fitted are noisy answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Domain, Hierarchy
from ..extra import jax, jnp
from ..workload.queries import GROUP, Queries
from . import fit as fitting
from .draw import draw_households
from .fit import LATENT, FitSummary, Params
from .layout import EncodedQueries, ModelLayout, encode_queries, model_layout, pack_queries

_LONGEST = 64  # queries a chunk: more are hardly faster, and a short round pays for padding


@dataclass(frozen=True)
class HPD:
    """A family of distributions over groups and their members.

    domain: with roles, households are head, spouse, children and others; without, members are
    alike. groups, people: G and N, public: answers are counts among so many. rows: K. hidden: None
    for HPD-Fixed, else the sizes of HPD-Gen's hidden layers; latent: the length of its Gaussian
    columns. others: most people in a household who are neither head, spouse nor child; None: as
    many as there is room for. memory: bytes that one chunk of queries may take in a gradient,
    beside some copies of the tables of probabilities (slots x values x K floats) and of the
    parameters; an answer alone takes less.
    """

    domain: Domain
    groups: int
    people: int
    rows: int = 1000
    hidden: tuple[int, ...] | None = None
    latent: int = 32
    others: int | None = None
    memory: int = 1 << 27

    @cached_property
    def layout(self) -> ModelLayout:
        return model_layout(self.domain, self.others)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, by name."""
        heads = self.layout.heads
        if self.hidden is None:
            return {name: (length, self.rows) for name, length in heads.items()}
        shapes: dict[str, tuple[int, ...]] = {LATENT: (self.latent, self.rows)}
        widths = (self.latent, *self.hidden)
        dense = {f"hidden{i}": pair for i, pair in enumerate(pairwise(widths))}
        dense |= {name: (widths[-1], length) for name, length in heads.items()}
        for name, (wide, out) in dense.items():
            shapes |= {f"{name}.weight": (out, wide), f"{name}.bias": (out,)}
        return shapes

    @property
    def length(self) -> int:
        """Queries a chunk, a power of two, so that a gradient's arrays stay within `memory`."""
        types = self.layout.types
        beside = 2 * (types.children + 1) * types.others if types else 0
        row = 4 * self.rows * (8 + 6 * self.layout.slots + 2 * beside)
        return min(_LONGEST, 1 << max(0, (self.memory // row).bit_length() - 1))

    def init(self, seed: int) -> Params:
        """Random parameters: small independent normal logits, or a network's usual start.

        Rows that begin near one uniform distribution end nearer to the plainest one that answers
        what is asked.
        """
        keys = jax.random.split(jax.random.key(seed), len(self.shapes))
        params = {}
        for key, (name, shape) in zip(keys, self.shapes.items(), strict=True):
            if name.endswith(".bias"):
                params[name] = np.zeros(shape, np.float32)
                continue
            wide = name.endswith(".weight")
            gain = (2 if name.startswith("hidden") else 1) / shape[1] if wide else 1
            if self.hidden is None:
                gain = 1 / 16
            params[name] = np.asarray(jax.random.normal(key, shape) * gain**0.5)
        return params

    def encode(self, queries: Queries) -> EncodedQueries:
        """Queries as row numbers. Encode a workload once and `take` from it: programs are
        compiled for its widths, the largest number of targets that one of its queries has.

        Raises ValueError for queries that do not fit the domain.
        """
        queries.check(self.domain)
        return encode_queries(self.layout, queries)

    def answers(self, params: Params, queries: Queries | EncodedQueries) -> NDArray[np.float64]:
        """(n,) expected counts among `groups` groups or `people` people."""
        encoded = queries if isinstance(queries, EncodedQueries) else self.encode(queries)
        chunks, place = pack_queries(self.layout, encoded, self.length)
        shares = np.asarray(fitting.compiled_shares(self.layout, self._given(params), chunks))
        return shares.reshape(-1)[place].astype(np.float64) * self._totals(encoded)

    def fit(
        self,
        params: Params,
        queries: Queries | EncodedQueries,
        values: NDArray[np.float64] | NDArray[np.int64],
        variances: NDArray[np.float64],
        steps: int,
        rate: float,
        decay: float = 0,
    ) -> tuple[Params, FitSummary]:
        """Parameters nearer to noisy counts, from these, by at most `steps` updates of Adam.

        values, variances: (n,) measured counts, and of their noise. The error is the mean of
        (answer - value)^2 / variance: about 1 where only the noise is missed. decay: the part of
        themselves that parameters lose at each update, over the rate. Returns the best iterate,
        finite whatever happens, and nothing is drawn. One program serves every number of queries
        that fills as many chunks, rounded up to a power of two, and all steps, rates and decays.

        Raises ValueError for values that are not finite or variances that are not positive.
        """
        encoded = queries if isinstance(queries, EncodedQueries) else self.encode(queries)
        totals = self._totals(encoded)
        values, variances = np.asarray(values, np.float64), np.asarray(variances, np.float64)
        if not values.shape == variances.shape == totals.shape:
            raise ValueError("every query needs a value and a variance")
        if not np.isfinite(values).all() or not ((variances > 0) & (variances < np.inf)).all():
            raise ValueError("measured values must be finite, their variances positive")
        if not len(values) or steps < 1:
            return params, FitSummary(0.0, 0.0, 0, True)
        weights = totals**2 / variances
        scale = weights.sum()  # of weights that add up to 1: none is too large for float32
        with np.errstate(over="ignore"):  # a value beyond float32 ends as an error that is inf
            chunks, _ = pack_queries(
                self.layout, encoded, self.length, values / totals, weights / scale
            )
        best, done = fitting.adam(
            self.layout,
            self._given(params),
            chunks,
            np.int32(steps),
            *(np.float32(rate), np.float32(decay)),
        )
        before, after, updates, finite = (x.item() for x in done)
        if not np.isfinite(after):  # the parameters given are no good: they are given back
            return params, FitSummary(before, before, 0, False)
        scale /= len(values)
        return _numpy(best), FitSummary(before * scale, after * scale, updates, finite)

    def sample(self, params: Params, groups: int, seed: int) -> Hierarchy:
        """`groups` synthetic groups and their members; repeats itself with the same seed."""
        logits = _numpy(fitting.compiled_logits(self.layout, self._given(params)))
        return Hierarchy(self.domain, *draw_households(self.layout, logits, groups, seed))

    def _totals(self, encoded: EncodedQueries) -> NDArray[np.float64]:
        return np.where(encoded.level == GROUP, float(self.groups), float(self.people))

    def _given(self, params: Params) -> dict[str, jax.Array]:
        """Raises ValueError unless these are parameters of this model."""
        if {k: v.shape for k, v in params.items()} != self.shapes:
            raise ValueError("the parameters are another model's")
        return {k: jnp.asarray(v, jnp.float32) for k, v in params.items()}


def _numpy(arrays: Mapping[str, jax.Array]) -> Params:
    return {k: np.array(v) for k, v in arrays.items()}  # JAX's own are read-only
