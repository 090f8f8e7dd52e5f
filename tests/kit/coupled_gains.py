"""Writes the table of the variances of the coupled measurement's sums.

`python -m kit.coupled_gains` takes 20 seconds.
"""

from __future__ import annotations

from pathlib import Path

from stream_dp.continual.cumulative import coupled_gains
from stream_dp.continual.cumulative.coupled_strategy import coupled_strategy


def write_table() -> None:
    """Computes the table, and writes it into the library."""
    private, public = (
        [*coupled_strategy(public_size=size, periods=coupled_gains.LONGEST).variances()]
        for size in (False, True)
    )
    table = coupled_gains.gains_table(private, public)
    Path(coupled_gains.__file__).with_name(coupled_gains.TABLE).write_bytes(table)


if __name__ == "__main__":
    write_table()
