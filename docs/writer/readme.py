"""Sections of the README that the first page has too."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "README.md"


def introduction() -> str:
    """The text between the title and the first section."""
    text = SOURCE.read_text("utf-8").partition("\n")[2].partition("\n## ")[0].strip()
    return _from_docs(text)


def section(title: str) -> str:
    """A section with its title. Raises ValueError where there is none of that title."""
    _, mark, rest = SOURCE.read_text("utf-8").partition(f"\n## {title}\n")
    if not mark:
        raise ValueError(f"the README has no section '{title}'")
    return _from_docs(f"## {title}\n{rest.partition(chr(10) + '## ')[0]}".strip())


def _from_docs(text: str) -> str:
    """Returns the text with links as they are in the folder `docs`."""
    return text.replace("](docs/", "](")
