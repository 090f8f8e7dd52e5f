"""The parts of pages that come from code and from measured tables.

A page has three of them, each complete where it lies:

    <!-- written: NAME -->  ...  <!-- end -->    the text of `MAKERS[NAME]`, or a table
    [0.46](data/NAME.json "ROW: COLUMN")         a number; `least COLUMN`, `greatest COLUMN`
    ![caption](../images/figures/NAME.svg)       a drawing of `DRAWINGS`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import access
import architecture_picture
import certificates
import commands
import logs
import mechanism_pictures
import metrics
import navigation
import python_api
import readme
import reports
import result_commands
import result_figures
import result_tables
import sequence_pictures
import study_keys
from drawings import Drawing, plain

MAKERS: dict[str, Callable[[], str]] = {
    "study file": study_keys.markdown,
    "commands": commands.markdown,
    "certificates": certificates.markdown,
    "metrics": metrics.markdown,
    "alerts": metrics.alerts,
    "access": access.markdown,
    "events": logs.markdown,
    "reasons": reports.reasons,
    "commands of results": result_commands.markdown,
    "how to": partial(navigation.pages, "how-to"),
    "mechanisms": navigation.mechanisms,
    "python": partial(navigation.pages, "reference/python"),
    "introduction": readme.introduction,
    "try it": partial(readme.section, "Try it without Kafka"),
    "on kafka": partial(readme.section, "On Kafka in five minutes"),
    **{f"python {page}": partial(python_api.markdown, page) for page in python_api.NAMES},
}
DRAWINGS: dict[str, Callable[[str], Drawing]] = {
    "figures": result_figures.drawing,
    "pictures": mechanism_pictures.drawing,
    "sequences": sequence_pictures.drawing,
    "architecture": lambda _: architecture_picture.drawing(),
}
_PART = re.compile(r"^(<!-- written: ([^\n]+?) -->)$.*?^(<!-- end -->)$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\[[^\[\]]*\](\(data/([a-z0-9-]+)\.json\s+\"([^\"]+)\"\))")
_DRAWING = re.compile(rf"!\[[^\[\]]*\](\([./]*images/({'|'.join(DRAWINGS)})/([a-z-]+)\.svg\))")


class Page(NamedTuple):
    """A page as it should be: its text, the parts that it asks for, and its drawings by their
    folder and name."""

    text: str
    parts: frozenset[str]
    drawings: dict[tuple[str, str], str]


def page(text: str) -> Page:
    """The page with its parts written again. Raises KeyError for a name that nothing has."""
    drawings: dict[tuple[str, str], str] = {}

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{_part(match[2]).strip()}\n\n{match[3]}"

    def number(match: re.Match[str]) -> str:
        target, name, title = match.groups()
        return f"[{result_tables.read(name).titled(' '.join(title.split()))}]{target}"

    def drawing(match: re.Match[str]) -> str:
        target, folder, name = match.groups()
        drawn = DRAWINGS[folder](name)
        drawings[folder, name] = drawn.svg
        return f"![{plain(drawn.caption)}]{target}"

    asked = frozenset(match[2] for match in _PART.finditer(text))
    text = _DRAWING.sub(drawing, _NUMBER.sub(number, _PART.sub(part, text)))
    return Page(text, asked, drawings)


def _part(name: str) -> str:
    if name.startswith("table "):
        return result_tables.read(name.removeprefix("table ")).markdown()
    return MAKERS[name]()
