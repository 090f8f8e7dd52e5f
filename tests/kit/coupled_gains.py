"""Writes the tables of the variances of the coupled measurement's sums.

`python -m kit.coupled_gains` takes a minute.
"""

from __future__ import annotations

from pathlib import Path

from stream_dp.continual.cumulative import coupled_gains
from stream_dp.continual.cumulative.coupled_strategy import coupled_strategy
from stream_dp.continual.cumulative.open_strategy import OpenStrategy


def write_table() -> None:
    """Computes the tables, and writes them into the library."""
    closed = [
        coupled_strategy(public_size=size, periods=coupled_gains.LONGEST) for size in (False, True)
    ]
    for is_open, name in coupled_gains.TABLES.items():
        strategies = [OpenStrategy(rows, entries=False) if is_open else rows for rows in closed]
        table = coupled_gains.gains_table(*([*rows.variances()] for rows in strategies))
        Path(coupled_gains.__file__).with_name(name).write_bytes(table)


if __name__ == "__main__":
    write_table()
