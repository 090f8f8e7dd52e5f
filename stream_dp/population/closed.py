"""A closed period: the input of its releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .cells import Cells
from .rejection_reasons import Reason


@dataclass(frozen=True)
class ClosedPeriod:
    """A closed period, confidential.

    symbols: by attribute, a code for every slot, of 8, 16 or 32 bits by its number of symbols; an
        attribute with a history also has columns of its past (`study.table_releases.PastAnswer`).
    refused: by reason, the cells of people who were not admitted, and cells that contradict a
        fixed value.
    count: computes the counts of a range of slots; it is called after the noise is drawn.
    nobody: the number of leading slots that stand for nobody, and are not counted.
    """

    symbols: dict[str, NDArray[np.unsignedinteger]]
    refused: dict[Reason, Cells]
    count: Callable[[slice], dict[str, NDArray[np.int64]]]
    nobody: int = 0

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """The counts of each release's mechanism."""
        return self.count(slice(self.nobody, None))
