"""A figure to take away: a picture of 600 x 315 units with title, sentence and source."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from .marks import Chart, Text
from .render import render, resource

WIDTH, HEIGHT = 600.0, 315.0  # twice as many pixels in PNG, as previews of links take them
_MARGIN = 20.0
_TITLE_LINE, _TITLE_LETTERS, _TITLE_LINES = 21.0, 58, 2
_CAPTION_LINE, _CAPTION_LETTERS, _CAPTION_LINES = 14.0, 98, 3
Draw = Callable[[tuple[float, float]], Chart]


@dataclass(frozen=True)
class Picture:
    """A chart at a place among texts. description: the sentence that reads the figure aloud."""

    title: str
    description: str
    texts: tuple[Text, ...]
    chart: Chart
    x: float
    y: float
    width: float = WIDTH
    height: float = HEIGHT

    def svg(self) -> str:
        """The picture as a self-contained SVG in the light colours."""
        style = "\n".join(light_rules())
        return render("figure.svg", picture=self, style=style)


def picture(title: str, reading: str, source: str, draw: Draw) -> Picture:
    """Lays a picture out. draw: draws the chart in a size.

    reading: the sentence below the chart.
    source: the last line.
    """
    titles = _wrapped(title, _TITLE_LETTERS, _TITLE_LINES)
    captions = _wrapped(reading, _CAPTION_LETTERS, _CAPTION_LINES)
    captions.append(_wrapped(source, _CAPTION_LETTERS, 1)[0])
    texts = [Text("title", _MARGIN, 32 + _TITLE_LINE * i, line) for i, line in enumerate(titles)]
    top = 32 + _TITLE_LINE * len(titles) - 6
    bottom = HEIGHT - 14 - _CAPTION_LINE * (len(captions) - 1)
    texts += [
        Text("caption", _MARGIN, bottom + _CAPTION_LINE * i, line)
        for i, line in enumerate(captions)
    ]
    chart = draw((WIDTH - 2 * _MARGIN, bottom - _CAPTION_LINE - 6 - top))
    return Picture(title, reading, tuple(texts), chart, _MARGIN, top)


def _wrapped(text: str, letters: int, lines: int) -> list[str]:
    """A text in lines of so many letters; the last of so many lines ends in an ellipsis."""
    return textwrap.wrap(text, letters, max_lines=lines, placeholder=" …") or [""]


def light_rules() -> list[str]:
    """The style sheet's rules for marks, with the light colours filled in."""
    sheet = resource("style.css")
    light = sheet[: sheet.index("@media")]
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", light))
    rules = re.findall(r"^svg [.t*][^{]*\{[^}]*\}", sheet, re.MULTILINE)
    return [re.sub(r"var\(--([\w-]+)\)", lambda m: colours[m[1]], rule) for rule in rules]
