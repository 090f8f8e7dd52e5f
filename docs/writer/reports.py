"""Why a report is rejected, from the table that the releaser uses."""

from __future__ import annotations

from stream_dp.population.cells import REASONS


def reasons() -> str:
    lines = ["| reason | what it means |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {words} |" for name, words in REASONS.items())])
