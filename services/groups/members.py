"""The members of groups beside the population: what a data set is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Members:
    """Codes of the groups, (G, attributes + 1); each member's slot, group and role, (N,)."""

    groups: NDArray[np.uint16]
    slots: NDArray[np.int64]
    group_of: NDArray[np.int64]
    roles: NDArray[np.uint16] | None = None

    def people(self, symbols: Sequence[NDArray[np.uint8]]) -> NDArray[np.integer]:
        """(N, columns) codes from those of everybody, by attribute; the role first."""
        first = [] if self.roles is None else [self.roles]
        return np.stack([*first, *(codes[self.slots] for codes in symbols)], axis=1)
