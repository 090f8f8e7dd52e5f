"""Costs of the coupled measurement, in squared units of its rows.

`HistoryCosts` (`tests/kit/coupled_costs.py`) computes the same whole numbers, in seconds for a pair
at 120 periods and in minutes above 300. A compiled copy of its inner loop made the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

PERIODS: tuple[int, ...] = (*range(1, 301), *range(325, 576, 25), 610)


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """Exact costs by number of periods.

    without_entries: of `PERIODS`
    with_entries: of 1, 2, .. periods
    """

    without_entries: tuple[int, ...]
    with_entries: tuple[int, ...]


_TABLES = json.loads(files(__package__).joinpath("coupled_costs.json").read_bytes())
PRIVATE_SINGLE, PRIVATE_PAIR, PUBLIC_PAIR = (
    CostTable(**{part: tuple(costs) for part, costs in _TABLES[name].items()})
    for name in ("private_single", "private_pair", "public_pair")
)
"""One person is added or removed, or replaced; the number of people is private, or public."""
