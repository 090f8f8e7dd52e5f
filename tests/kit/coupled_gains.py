"""Writes the tables of the variances of the coupled measurement's sums.

`python -m kit.coupled_gains` takes a minute.
"""

from __future__ import annotations

import inspect
import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.cumulative.coupled_strategy import (
    DIFFERENCES,
    DROPPED,
    LONGEST,
    TABLES,
    Floats,
    OpenStrategy,
    coupled_strategy,
    gains_of,
)

_PACKAGE = Path(inspect.getfile(OpenStrategy))


def rounded_up(gains: Floats) -> Floats:
    """Positive floats, rounded up to 15 binary digits."""
    return gains_of(digits_of(gains))


def gains_table(private: Sequence[Floats], public: Sequence[Floats]) -> bytes:
    """The bytes of the table, from the variances of `LONGEST` periods."""
    numbers = np.stack([digits_of(np.concatenate(gains)) for gains in (private, public)])
    differences = np.diff(numbers, n=DIFFERENCES, prepend=np.zeros((2, DIFFERENCES), np.int64))
    folded = (differences << 1) ^ (differences >> 63)  # small numbers of either sign are small
    by_byte = folded.astype("<u4").view(np.uint8).reshape(2, -1, 4).transpose(0, 2, 1)
    return lzma.compress(by_byte.tobytes(), preset=9)


def digits_of(gains: Floats) -> NDArray[np.int64]:
    """The digits of positive floats, rounded up: whole numbers of at most 26 binary digits."""
    shifted: NDArray[np.int64] = (gains.view(np.int64) + (1 << DROPPED) - 1) >> DROPPED
    return shifted


def write_table() -> None:
    """Computes the tables, and writes them into the library."""
    closed = [coupled_strategy(public_size=size, periods=LONGEST) for size in (False, True)]
    for is_open, name in TABLES.items():
        strategies = [OpenStrategy(rows, entries=False) if is_open else rows for rows in closed]
        table = gains_table(*([*rows.variances()] for rows in strategies))
        _PACKAGE.with_name(name).write_bytes(table)


if __name__ == "__main__":
    write_table()
