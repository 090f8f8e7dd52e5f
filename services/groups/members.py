"""Groups and members as codes, the input of batch synthesizers. Confidential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Members:
    """G groups and N members.

    groups: codes of the groups' attributes, then of the sizes, (G, attributes + 1).
    slots: each member's slot in the population, (N,); empty for a population in parts.
    group_of: the row of each member's group, (N,).
    roles: codes of roles, (N,); None without declared roles.
    """

    groups: NDArray[np.uint16]
    slots: NDArray[np.int64]
    group_of: NDArray[np.int64]
    roles: NDArray[np.uint16] | None = None

    def people(self, symbols: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.integer]:
        """The members' codes, (N, columns): the role, if declared, then the attributes.

        symbols: by attribute, a code for every slot of the population.
        """
        return self.with_roles(np.stack([codes[self.slots] for codes in symbols], axis=1))

    def with_roles(self, codes: NDArray[np.integer]) -> NDArray[np.integer]:
        """Puts the codes of roles, if declared, before members' codes, (N, attributes)."""
        return codes if self.roles is None else np.column_stack([self.roles, codes])
