"""Lists of pages, from the navigation of the site."""

from __future__ import annotations

import re
from pathlib import Path

SITE = Path(__file__).parents[2] / "mkdocs.yml"


def pages(folder: str) -> str:
    """The pages of a folder below `docs`, as a list for a page beside the folder."""
    found = re.findall(rf"^ +- (.+): {folder}/(\S+)$", SITE.read_text("utf-8"), re.MULTILINE)
    name = folder.rpartition("/")[2]
    return "\n".join(f"- [{title}]({name}/{file})" for title, file in found)


def mechanisms() -> str:
    """The pages of the folder of mechanisms, for its first page."""
    return pages("mechanisms").replace("](mechanisms/", "](").partition("\n")[2]
