"""Drawings of matplotlib as elements of a page.

A drawing is part of its page, so that its texts and lines have the page's colours, light or dark.
"""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

# Each series has a colour of the page's style sheet and a marker, so that colour is never alone.
COLOURS = ("#00796b", "#c2410c", "#5b21b6", "#6b7280")
MARKERS = ("o", "s", "^", "D")
TEXT = "#123456"
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
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


def plain(text: str) -> str:
    """A text without the marks of Markdown."""
    return re.sub(r"[`*]", "", text)


def settings() -> AbstractContextManager[None]:
    """The settings of matplotlib for every drawing."""
    return matplotlib.rc_context(_SETTINGS)


def element(figure: Any, name: str, text: str) -> str:
    """The figure as a `<figure>` with a text alternative; closes the figure.

    name: unique in a page, because drawings of one page must not share identifiers
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, bbox_inches="tight")
    pyplot.close(figure)
    svg = _META.sub("", _HEAD.sub("", file.getvalue())).replace(TEXT, "currentColor")
    svg = re.sub(r"(?<=<svg) ", f' role="img" aria-label="{plain(text)}" ', svg)
    svg = re.sub(r'(?<=id=")|(?<=href="#)|(?<=url\(#)', f"{name}-", svg)
    return f'<figure class="result">{svg.strip()}</figure>'
