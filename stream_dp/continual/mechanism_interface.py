"""The interface of the continual mechanisms: frozen values with pure steps.

A mechanism gives the cost of each period and the noise that it demands. Its `step` adds that noise
to what it measures of the true counts, and turns the noisy answers into new synthetic columns.
Everything after the noisy answers is post-processing: it uses these answers, public numbers and
random choices that do not depend on data (`Draw.coins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.privacy.noise import Draw, Measurements
from stream_dp.study.families import RELATIONS

if TYPE_CHECKING:
    from stream_dp.panel import Columns, Symbols


def check_arguments(mechanism: Any) -> None:
    """Raises ValueError, which names the argument, unless arguments of all panels are possible."""
    rho, neighbours, failure = mechanism.rho, mechanism.neighbours, mechanism.failure
    if rho <= 0:
        raise ValueError(f"rho: must be a number above 0, such as 0.01, not {rho}")
    if neighbours not in RELATIONS:
        raise ValueError(f"neighbours: must be one of {', '.join(RELATIONS)}, not {neighbours!r}")
    check_whole("horizon", mechanism.horizon)
    if not 0 < failure < 1:
        raise ValueError(f"failure: must be a number between 0 and 1, not {failure}")
    if mechanism.rows is not None:
        check_whole("rows", mechanism.rows, 0)


def check_whole(name: str, number: object, least: int = 1) -> None:
    """Raises ValueError unless the argument is a whole number from `least` on."""
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name}: must be a whole number from {least} on, not {number!r}")


Counts = NDArray[np.int64]
Demand = Sequence[tuple[Fraction, int]]
S = TypeVar("S")


@dataclass(frozen=True)
class Estimates:
    """Unbiased answers from the release's measurements so far, with their standard errors.

    queries: as `answers/query.py` parses them
    values: float64 (n,), people
    errors: float64 (n,), people; different answers are correlated in general
    """

    queries: tuple[str, ...]
    values: NDArray[np.float64]
    errors: NDArray[np.float64]

    @staticmethod
    def joined(estimates: Sequence[Estimates]) -> Estimates:
        """The estimates of all parts, in order."""
        return Estimates(
            tuple(query for estimate in estimates for query in estimate.queries),
            np.concatenate([estimate.values for estimate in estimates]),
            np.concatenate([estimate.errors for estimate in estimates]),
        )


@dataclass(frozen=True)
class Step:
    """The published result of a period.

    columns: uint8 (rows, new periods), the panel's new columns
    measurements: the noisy answers
    estimates: the unbiased estimates computed from the measurements
    notes: numbers about the post-processing, published with the release
    """

    columns: Symbols
    measurements: Measurements
    estimates: Estimates
    notes: dict[str, int] = field(default_factory=dict)


class Mechanism(Protocol[S]):
    """A continual synthesizer under a declared neighbouring relation.

    The outputs of steps 1..t together satisfy sum(charges[:t])-zCDP under that relation, for the
    complete history of one person, if each step's noise is independent N_Z(0, variance) as
    demanded (zCDP: Bun and Steinke 2016). Periods are numbered from 1.
    """

    @property
    def title(self) -> str:
        """The algorithm and its source, in words."""

    @property
    def values(self) -> tuple[int | str, ...]:
        """The panel's symbols; a column of the panel has their numbers 0, 1, ..."""

    @property
    def padding(self) -> int:
        """Rows that are added to every count, in people."""

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number, in people squared."""

    @property
    def error_bound(self) -> float:
        """With probability 1 - beta the error of every estimate is at most this, in people."""

    @property
    def bounded(self) -> str:
        """Of what `error_bound` holds, in words."""

    @property
    def bias(self) -> str:
        """The bias of answers that are counted in the panel, in words."""

    @property
    def charges(self) -> tuple[Fraction, ...]:
        """The cost in rho of every period, (T,)."""

    def demand(self, t: int) -> Demand:
        """The noise of period t: the variance and the size of every vector."""

    def init(self) -> S:
        """The state before the first period."""

    def step(self, state: S, counts: Counts, draw: Draw) -> tuple[S, Step | None]:
        """The state after the next period, and what is published.

        counts: int64, of every pattern or threshold that the mechanism counts, in people
        draw: the noise that `demand` asks for, drawn before the counts were read

        Returns None in place of the step where the period has no release.
        """

    def dump(self, state: S) -> bytes:
        """What the state's period adds to that of the period before."""

    def load(self, dumps: Sequence[bytes], panel: Columns | None) -> S:
        """The state from the dumps of all periods so far.

        panel: the released panel, whose rows the state needs

        Raises Inconsistent for dumps that are damaged, or of another version or mechanism.
        """


def shuffled_groups(
    groups: NDArray[np.int64], n_groups: int, coins: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows ordered by group, in uniformly random order inside each group, and the start of each
    group.

    groups: (rows,) numbers in 0..n_groups-1

    Returns (order, starts): order (rows,), and starts (n_groups + 1,) positions in it.
    """
    narrow = groups.astype(np.uint16) if n_groups <= 1 << 16 else groups
    order = coins.permutation(groups.shape[0])
    # A stable sort of 16-bit keys is a radix sort: linear in the rows.
    order = order[np.argsort(narrow[order], kind="stable")]
    starts = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=n_groups), out=starts[1:])
    return order, starts


class PackedState(msgspec.Struct, forbid_unknown_fields=True):
    """A dump of a mechanism: version, period, named int64 arrays with their shapes."""

    version: int
    period: int
    arrays: dict[str, tuple[list[int], bytes]]


def pack_state(version: int, period: int, **arrays: NDArray[np.int64]) -> bytes:
    """The bytes of a dump for `unpack_state`."""
    packed = {k: (list(a.shape), a.astype("<i8").tobytes()) for k, a in arrays.items()}
    return msgspec.msgpack.encode(PackedState(version, period, packed))


def unpack_state(
    data: bytes, known: int, **shapes: tuple[int, ...]
) -> tuple[int, dict[str, Counts]]:
    """The period and the arrays of a dump.

    data: from `pack_state`
    known: the version that the caller reads
    shapes: the name and shape of every array

    Raises Inconsistent for bytes that are damaged, of another version or another mechanism.
    """
    try:
        raw = msgspec.msgpack.decode(data)
        version = raw["version"]
        if version != known:
            raise Inconsistent(
                f"journal: a mechanism's state has version {version}, this code reads {known};"
                " run the version of stream-dp that wrote it, or a newer one"
            )
        packed = msgspec.convert(raw, PackedState)
        arrays = {
            k: np.frombuffer(raw, "<i8").astype(np.int64).reshape(shape)
            for k, (shape, raw) in packed.arrays.items()
        }
    except (msgspec.DecodeError, ValueError, TypeError, KeyError):
        raise Inconsistent("journal: a mechanism's state is damaged; restore a backup") from None
    if {k: a.shape for k, a in arrays.items()} != shapes:
        raise Inconsistent("journal: the state is another mechanism's; restore a backup")
    return packed.period, arrays


def event_totals(panel: Columns | None, events: Sequence[int]) -> Counts:
    """The number of columns in which each row has a given code, (rows,). Empty without a panel."""
    if panel is None:
        return np.zeros(0, np.int64)
    totals = np.zeros(panel.rows, np.int64)
    for position in range(len(panel.periods)):
        totals += np.isin(panel.column(position), events)
    return totals


def check_panel_fits(panel: Columns | None, period: int, rows: int) -> None:
    """Raises Inconsistent unless the released panel has the periods and rows of a saved state."""
    if period == 0 and panel is None:
        return
    if panel is None or len(panel.periods) != period or panel.rows != rows:
        raise Inconsistent("journal: the released panel and the mechanism's state do not fit")
