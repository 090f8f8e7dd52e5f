"""Rows of the tables in `docs/results/data`, written by the benchmark that measures them.

    RECORD=1 python benchmarks/coverage.py

Without `RECORD` a benchmark prints its table and writes nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "data"


def record(name: str, row: str, *cells: float | str | None) -> None:
    """Writes one row of `NAME.json` in the place of the row with this name, if `RECORD` is set.

    cells: in the order of the table's columns. Numbers keep four significant digits, and whole
    numbers all of theirs.

    Raises ValueError for another number of cells than columns.
    """
    if not os.environ.get("RECORD"):
        return
    path = FOLDER / f"{name}.json"
    data = json.loads(path.read_text("utf-8"))
    if len(cells) != len(data["columns"]):
        raise ValueError(f"{name}: {len(cells)} cells for {len(data['columns'])} columns")
    data["rows"][row] = [_short(cell) for cell in cells]
    path.write_text(text(data), "utf-8")


def text(data: dict[str, object]) -> str:
    """A table as JSON with a line for each row."""
    rows = data["rows"]
    assert isinstance(rows, dict)
    head = json.dumps({k: v for k, v in data.items() if k != "rows"}, indent=2, ensure_ascii=False)
    lines = (
        f"    {json.dumps(row, ensure_ascii=False)}: {json.dumps(cells, ensure_ascii=False)}"
        for row, cells in rows.items()
    )
    return head[:-2] + ',\n  "rows": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def _short(cell: float | str | None) -> float | str | None:
    if cell is None or isinstance(cell, str) or float(cell).is_integer():
        return int(cell) if isinstance(cell, float) else cell
    return float(f"{cell:.4g}")
