"""Lists of pages, from the navigation of the site."""

from __future__ import annotations

import re
from pathlib import Path

SITE = Path(__file__).parents[2] / "mkdocs.yml"


def how_to() -> str:
    """The pages that solve a task each."""
    pages = re.findall(r"^ +- (.+): (how-to/\S+)$", SITE.read_text("utf-8"), re.MULTILINE)
    return "\n".join(f"- [{title}]({path})" for title, path in pages)
