"""Hierarchical product distributions: HPD-Fixed and HPD-Gen.

Source: Liu and Wu 2022, "Private synthetic data with hierarchical structure" (arXiv 2206.05942). A
mixture of K rows, each a product of distributions over a group's attributes, its size or
composition, and every member's attributes. The parameters of HPD-Fixed are the logits. HPD-Gen
computes the logits by a network (`generator_network.py`). Answers are in `product_answers.py`, the
optimiser in `adam.py`, samples in `household_draw.py`. Needs JAX, the `batch` extra.

A model is a frozen value; its parameters are a flat dict of float32 arrays. The arrays that a fit
returns stay on the device, for the next answers and the next fit. A model is fitted to noisy
answers and sees no confidential data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Domain, Hierarchy
from ...jax_extra import jax, jnp
from ..workload.queries import GROUP, Queries
from . import adam as fitting
from .adam import AdamSettings, FitSummary, Params
from .generator_network import first_network, network_shapes
from .household_draw import draw_households
from .model_arrays import EncodedQueries, ModelLayout, encode_queries, model_layout, pack_queries
from .row_supports import RowSupports, row_supports

SPREAD = 1 / 16  # the variance of the first logits
# Columns of a chunk at most, and bytes of a chunk. On a processor longer chunks are hardly faster,
# and pad short rounds. A GPU waits for the kernels of a chunk, which are as many for a short one.
_ON_PROCESSOR, _ON_GPU = (64, 1 << 27), (1024, 1 << 32)
_ANSWERED = 1 << 14  # queries at a time, so that memory does not grow with their number


@dataclass(frozen=True, eq=False)
class MeasuredQueries:
    """Queries and their noisy answers.

    queries: n queries, encoded by the model that learns them or not.
    values: (n,) measured counts.
    variances: (n,) variances of their noise.
    Raises ValueError for values that are not finite or variances that are not positive.
    """

    queries: Queries | EncodedQueries
    values: NDArray[np.float64] | NDArray[np.int64]
    variances: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not self.values.shape == self.variances.shape == self.queries.level.shape:
            raise ValueError("every query needs a value and a variance")
        positive = (self.variances > 0) & (self.variances < np.inf)
        if not np.isfinite(self.values).all() or not positive.all():
            raise ValueError("measured values must be finite, their variances positive")


@dataclass(frozen=True)
class HPD:
    """A family of distributions over groups and their members.

    domain: of the data; with roles, households have a head, spouse, children and others.
    groups: G, public; answers about groups are counts among them.
    people: N, public, likewise; of events without meaning, for their number is nobody's to know.
    rows: K.
    hidden: the sizes of the hidden layers of HPD-Gen's network; None for HPD-Fixed.
    other_slots: largest number of people in a household who are neither head, spouse nor child;
        None: the room of a household.
    memory: bytes that one chunk of queries may take in a gradient, besides several copies of the
        tables of probabilities (slots x values x K floats) and of the parameters. None: 128 MiB on
        a processor, 4 GiB on a GPU.
    """

    domain: Domain
    groups: int
    people: int
    rows: int = 1000
    hidden: tuple[int, ...] | None = None
    other_slots: int | None = None
    memory: int | None = None

    @cached_property
    def layout(self) -> ModelLayout:
        return model_layout(self.domain, self.other_slots)

    @cached_property
    def supports(self) -> RowSupports | None:
        """What the rows may hold under the domain's rules."""
        return row_supports(self.domain, self.layout, self.rows)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter, by name."""
        if self.hidden is not None:
            return network_shapes(self.layout, self.hidden, self.rows)
        return {name: (length, self.rows) for name, length in self.layout.heads.items()}

    @property
    def length(self) -> int:
        """Queries per chunk: a power of two with a gradient's arrays within `memory`."""
        row = 4 * self.rows * (8 + 6 * self.layout.slots + 3 * len(self.layout.filled))
        longest, room = _ON_PROCESSOR if jax.default_backend() == "cpu" else _ON_GPU
        memory = room if self.memory is None else self.memory
        return min(longest, 1 << max(0, (memory // row).bit_length() - 1))

    def init(self, seed: int) -> Params:
        """Random parameters: small independent normal logits, or those of a network.

        Small logits start all rows near the uniform distribution, so that the fit stays close to
        uniform where no answer says otherwise.
        """
        if self.hidden is not None:
            return first_network(self.layout, self.shapes, seed, SPREAD)
        keys = jax.random.split(jax.random.key(seed), len(self.shapes))
        return {
            name: np.asarray(jax.random.normal(key, shape) * SPREAD**0.5)
            for key, (name, shape) in zip(keys, self.shapes.items(), strict=True)
        }

    def encode(self, queries: Queries | EncodedQueries) -> EncodedQueries:
        """Encodes queries as row numbers; returns encoded queries unchanged.

        Programs are compiled for the widths of the encoding, the largest number of targets of any
        query: encode a workload once and `take` from it. Raises ValueError for queries that do not
        fit the domain.
        """
        if isinstance(queries, EncodedQueries):
            return queries
        queries.check(self.domain)
        return encode_queries(self.layout, queries)

    def answers(
        self, params: Params, queries: Queries | EncodedQueries, room: int = 0
    ) -> NDArray[np.float64]:
        """(n,) expected counts of queries, among `groups` groups or `people` people.

        room: the number of queries that the compiled program has room for, if there are fewer.
        """
        encoded, on_device = self.encode(queries), self._device_params(params)
        shares = np.zeros(len(encoded.level))
        room = min(room, _ANSWERED) if len(shares) <= _ANSWERED else _ANSWERED
        for start in range(0, len(shares), _ANSWERED):
            few = encoded.take(slice(start, start + _ANSWERED))
            chunks, position = pack_queries(self.layout, few, self.length, room=room)
            tables = fitting.compiled_shares(self.layout, on_device, chunks, self.supports)
            shares[start : start + _ANSWERED] = np.asarray(tables).reshape(-1)[position]
        return shares * self.totals(encoded)

    def fit(
        self, params: Params, measured: MeasuredQueries, settings: AdamSettings, room: int = 0
    ) -> tuple[Params, FitSummary]:
        """Fits parameters to noisy counts: the best iterate of Adam.

        Starts from `params`. The error is the mean of (answer - value)^2 / variance: about 1 where
        only the noise is missed. The result is finite whatever happens, and repeats itself: no
        random number is drawn. One program serves every number of queries up to `room`, or that
        fills as many chunks, rounded up to a power of two, and all settings.
        """
        encoded = self.encode(measured.queries)
        totals, values = self.totals(encoded), measured.values
        if not len(values) or settings.steps < 1:
            return params, FitSummary(0.0, 0.0, 0, True)
        weights = totals**2 / measured.variances
        scale = weights.sum()  # weights then sum to 1, so that none is too large for float32
        with np.errstate(over="ignore"):  # a value too large for float32 gives an infinite error
            chunks, _ = pack_queries(
                self.layout,
                encoded,
                self.length,
                target=values / totals,
                weight=weights / scale,
                room=room,
            )
        best, summary = fitting.adam(
            self.layout,
            self._device_params(params),
            chunks,
            settings.as_arguments(),
            self.supports,
        )
        first_error, best_error, updates, finite = (x.item() for x in summary)
        if not np.isfinite(best_error):  # not even the error of the first parameters: they stay
            return params, FitSummary(first_error, first_error, 0, False)
        scale /= len(values)
        return best, FitSummary(first_error * scale, best_error * scale, updates, finite)

    def sample(self, params: Params, groups: int, seed: int) -> Hierarchy:
        """`groups` synthetic groups and their members; a function of the seed."""
        self._require_shapes(params)
        if self.hidden is not None:
            params = fitting.compiled_logits(self.layout, self._device_params(params))
        logits = {name: np.asarray(array) for name, array in params.items()}
        drawn = draw_households(self.layout, logits, groups, seed, self.supports)
        return Hierarchy(self.domain, *drawn)

    def totals(self, encoded: EncodedQueries) -> NDArray[np.float64]:
        """(n,) the number of groups, or of people, of which an answer is a share.

        Of events, answers are numbers per person.
        """
        if self.domain.events:
            return np.full(len(encoded.level), float(self.groups))
        return np.where(encoded.level == GROUP, float(self.groups), float(self.people))

    def _require_shapes(self, params: Params) -> None:
        if {k: v.shape for k, v in params.items()} != self.shapes:
            raise ValueError("the parameters are another model's")

    def _device_params(self, params: Params) -> dict[str, jax.Array]:
        """JAX's arrays of the parameters. Raises ValueError for another model's parameters."""
        self._require_shapes(params)
        return {k: jnp.asarray(v, jnp.float32) for k, v in params.items()}
