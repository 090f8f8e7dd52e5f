"""Rows of an evaluation as a text table: one line a query, its answers side by side.

Confidential like the rows that it prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """rows as `report.summary` gives them, of one release."""
    plain_share = any(row["answer"] == "undebiased" for row in rows)
    head = ["query", "mean truth", "theory", "raw RMSE", "ratio", "panel RMSE", "panel bias"]
    head += ["undebiased RMSE"] if plain_share else []
    head += ["worst raw", "worst panel"]
    grid = []
    seen: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        seen.setdefault((row["query"], row["kind"]), {})[row["answer"]] = row
    for (query, _), held in seen.items():
        raw, panel = held.get("raw", {}), held["panel"]
        line = [query, _cell(panel["truth"]), _cell(panel["theory"])]
        line += [_cell(raw.get("rmse")), _cell(raw.get("ratio"), 3)]
        line += [_cell(panel["rmse"]), _cell(panel["bias"], signed=True)]
        if plain_share:
            line.append(_cell(held["undebiased"]["rmse"]))
        grid.append([*line, _cell(raw.get("worst")), _cell(panel["worst"])])
    return plain_table(head, grid)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned, the first to the left."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    return "\n".join(_aligned(line, widths) for line in (head, *rows))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(line, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])


def _cell(value: float | None, digits: int = 1, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
