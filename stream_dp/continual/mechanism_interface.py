"""The interface of the continual mechanisms: frozen values with pure steps.

A mechanism gives the cost of each period and the noise that it demands. Its `step` adds that noise
to what it measures of the true counts, and turns the noisy answers into new synthetic columns.
Everything after the noisy answers is post-processing: it uses these answers, public numbers and
random choices that do not depend on data (`Draw.coins`).

The floats of a design are stored with the first entry of a journal (`StoredDesign`).
Factorizations, and the weights and certificates that follow from them, are computed with a linear
algebra library, whose last bits depend on the machine. So they are computed once, when a study
begins; from then on every machine reads them. Matrices are of whole numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.privacy.noise import Draw, Measurements
from stream_dp.study.families import RELATIONS

IntMatrix = NDArray[np.int64]


class StoredCounters(msgspec.Struct, frozen=True):
    """The counters of a cumulative release.

    triangle: the lower-triangular 2^16 C of the longest counter, whose last rows and columns are
        the others; nothing where it is whole numbers by definition
    weights: inverse noise variances up to a unit, of counters 1..T, then of counter 0 if any
    total_cost: the cost of all periods in units of the weights, an exact fraction
    costs: of periods 1..t for every t
    """

    triangle: bytes
    weights: tuple[int, ...]
    total_cost: str
    costs: tuple[str, ...]


class StoredPresence(msgspec.Struct, frozen=True):
    """Who is present, in a window release of an open population.

    factor: C~ by diagonals
    costs: the worst cost of the first 1..R releases together, exact fractions
    """

    factor: bytes
    costs: tuple[str, ...]


class PanelError(msgspec.Struct, frozen=True):
    """The error of a query that the panel itself answers, without its padding, in people.

    query: as `answers/query.py` parses it
    error: the root mean square over periods and simulated repetitions
    bias: the mean error; 0 where chance explains it, or below a twentieth of the error
    """

    query: str
    error: float
    bias: float


class StoredDesign(msgspec.Struct, frozen=True, omit_defaults=True):
    """The floats of a release. Empty for an exact release.

    window_share: the part of a joint release's rho for its windows, an exact fraction
    panel: the errors to expect of the panel's own answers
    """

    counters: StoredCounters | None = None
    presence: StoredPresence | None = None
    window_share: str | None = None
    panel: tuple[PanelError, ...] = ()


NONE = StoredDesign()


def packed_designs(designs: Mapping[str, StoredDesign]) -> bytes:
    """The designs of a study's releases by name, in bytes."""
    return msgspec.msgpack.encode(dict(designs))


def unpacked_designs(data: bytes) -> dict[str, StoredDesign]:
    """The designs from the bytes of `packed_designs`. Raises Inconsistent."""
    try:
        return msgspec.msgpack.decode(data, type=dict[str, StoredDesign])
    except msgspec.DecodeError:
        raise Inconsistent(
            "journal: its first entry has no design that this version of stream-dp reads; run the"
            " version that wrote it"
        ) from None


def packed_integers(numbers: NDArray[np.int64]) -> bytes:
    """Whole numbers of at most 32 bits, in bytes."""
    if numbers.size and int(np.abs(numbers).max()) >= 1 << 31:
        raise ValueError("a number of a factor does not fit 32 bits")
    return zlib.compress(numbers.astype("<i4").tobytes(), 9)


def unpacked_integers(data: bytes, *shape: int) -> NDArray[np.int64]:
    """The numbers from the bytes of `packed_integers`, in the given shape. Raises Inconsistent."""
    return _unpacked(data, "<i4", shape).astype(np.int64)


def _unpacked(data: bytes, form: str, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        return np.frombuffer(zlib.decompress(data), form).reshape(shape)
    except (zlib.error, ValueError):
        raise Inconsistent("journal: the study's design is damaged; restore a backup") from None


def fractions(texts: tuple[str, ...]) -> tuple[Fraction, ...]:
    """Fractions from their texts."""
    return tuple(Fraction(text) for text in texts)


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
