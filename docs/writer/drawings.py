"""Drawings of matplotlib as files beside the pages."""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

# Each series has a colour and a marker, so that colour is never alone.
COLOURS = ("#00796b", "#c2410c", "#5b21b6", "#6b7280")
MARKERS = ("o", "s", "^", "D")
TEXT = "#24292f"
_META = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "result",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Drawing(NamedTuple):
    """A drawing with the sentence that stands for it. It has a white ground of its own, so that it
    is readable on a dark page."""

    svg: str
    caption: str


def plain(text: str) -> str:
    """A text without the marks of Markdown."""
    return re.sub(r"[`*]", "", text)


def settings() -> AbstractContextManager[None]:
    """The settings of matplotlib for every drawing."""
    return matplotlib.rc_context(_SETTINGS)


def drawn(figure: Any, caption: str) -> Drawing:
    """The figure as a drawing; closes the figure."""
    file = io.StringIO()
    figure.savefig(file, format="svg", facecolor="white", bbox_inches="tight")
    pyplot.close(figure)
    svg = _META.sub("", file.getvalue())
    svg = re.sub(r"(?<=<svg) ", f' role="img" aria-label="{plain(caption)}" ', svg, count=1)
    return Drawing(svg, caption)
