"""The operators' page, which lies beside what it is about, in `deploy/`."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "deploy" / "OPERATIONS.md"


def markdown() -> str:
    """The page without its title."""
    return SOURCE.read_text("utf-8").partition("\n")[2]


def exit_codes() -> str:
    """Its section about exit codes, for a page of the reference."""
    section = markdown().partition("## Exit codes\n")[2].partition("\n## ")[0]
    return section.replace("](#", "](../how-to/operations.md#")
