"""An evaluation as text: a table a release, one line a query, its answers side by side.

CONFIDENTIAL like the numbers that it prints; the first line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .panels.report import Evaluation, ReleaseErrors

WARNING = (
    "CONFIDENTIAL: computed from true data, not protected by any noise. "
    "The noise is simulated; nothing here is a release."
)
# A window's bins are listed one by one up to this number.
MOST_BINS = 48


def evaluation_text(found: Evaluation) -> str:
    blocks = [
        f"{WARNING}\nstudy {found.study}: {found.people} people, {len(found.periods)} periods, "
        f"{found.neighbours}, {found.repetitions} repetitions, seed {found.seed}\n"
        "errors in people, root mean square over repetitions and periods; bias and worst: the "
        "largest of any period"
    ]
    for errors in found.releases:
        held = [row for row in found.rows() if row["release"] == errors.release]
        if sum(row["kind"] == "bin" for row in held) > MOST_BINS:
            held = [row for row in held if row["kind"] != "bin"]
        blocks.append(f"{_heading(errors)}\n{text_table(held)}")
    faults = found.disagreements()
    note = "raw answers agree with theory, cell by cell, as far as these repetitions can tell"
    blocks.append("\n".join(["raw answers DISAGREE with theory:", *faults]) if faults else note)
    return "\n\n".join(blocks)


def _heading(errors: ReleaseErrors) -> str:
    what = f"{errors.release} ({errors.kind}"
    what += f", width {errors.width}" if errors.width else ""
    what += f", padding {errors.padding}" if errors.padding else ""
    kept = ", ".join(f"{c.answer} {c.within:.1%}" for c in errors.cells if c.answer != "undebiased")
    word = "some count had to be repaired"
    return (
        f"{what}, rho {errors.rho}): error bound {errors.bound:.1f} in every cell with probability "
        f"{1 - errors.failure:g}; kept in: {kept} of the repetitions; {word} in "
        f"{errors.repaired:.1%}"
    )


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """rows as `report.summary_rows` gives them, of one release."""
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
