"""The operators' page, which lies beside what it is about, in `deploy/`."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "deploy" / "OPERATIONS.md"


def markdown() -> str:
    """The page without its title."""
    return SOURCE.read_text("utf-8").partition("\n")[2]


def section(title: str) -> str:
    """A section of the page, for a page of its own."""
    text = markdown().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return text.replace("](#", "](../how-to/operations.md#")
