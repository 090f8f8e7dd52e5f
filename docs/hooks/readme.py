"""Sections of the README that the first page has too."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "README.md"


def introduction() -> str:
    """The text between the title and the first section, with links as in the folder `docs`."""
    text = SOURCE.read_text("utf-8").partition("\n")[2].partition("\n## ")[0].strip()
    return text.replace("](docs/", "](")


def section(title: str) -> str:
    """A section with its title. Raises ValueError where there is none of that title."""
    _, mark, rest = SOURCE.read_text("utf-8").partition(f"\n## {title}\n")
    if not mark:
        raise ValueError(f"the README has no section '{title}'")
    return f"## {title}\n{rest.partition(chr(10) + '## ')[0]}".strip()
