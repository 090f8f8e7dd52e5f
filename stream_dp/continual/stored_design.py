"""The floats of a design, stored with the first entry of a journal.

Factorizations, and the weights and certificates that follow from them, are computed with a linear
algebra library, whose last bits depend on the machine. So they are computed once, when a study
begins; from then on every machine reads them. Matrices are of whole numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent

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
