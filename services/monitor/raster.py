"""Pictures as PNG, drawn by matplotlib from the same marks and style rules as the SVG.

matplotlib brings its fonts along, so that a machine without fonts draws the same bytes.
"""

from __future__ import annotations

import io
import re
from functools import cache
from importlib.util import find_spec
from typing import Any

from stream_dp.errors import missing_extra

from .figure_picture import Picture, light_rules
from .marks import Box, Dot, Mark, Path, Text

_PIXELS_PER_UNIT = 2
_POINTS_PER_INCH = 72  # so that a unit is a point, as lengths of matplotlib are


def png(picture: Picture) -> bytes:
    """The picture as PNG, twice as many pixels as units. Raises UserError without matplotlib."""
    if find_spec("matplotlib") is None:
        raise missing_extra("PNG: needs matplotlib", "monitor")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (picture.width / _POINTS_PER_INCH, picture.height / _POINTS_PER_INCH)
    figure = Figure(figsize=size, dpi=_PIXELS_PER_UNIT * _POINTS_PER_INCH, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, picture.width), ylim=(picture.height, 0))
    axes.set_axis_off()
    for text in picture.texts:
        _draw(axes, text, 0.0, 0.0)
    for mark in picture.chart.marks:
        _draw(axes, mark, picture.x, picture.y)
    out = io.BytesIO()
    metadata = {"Software": None, "Title": picture.title, "Description": picture.description}
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(out, metadata=metadata)
    return out.getvalue()


@cache
def _styles() -> dict[str, dict[str, str]]:
    """By class of a mark, the properties of its rules in the style sheet."""
    styles: dict[str, dict[str, str]] = {}
    for rule in light_rules():
        selectors, _, body = rule.partition("{")
        pairs = (entry.partition(":") for entry in body.rstrip("}").split(";") if ":" in entry)
        properties = {name.strip(): value.strip() for name, _, value in pairs}
        for name in re.findall(r"svg \.([\w-]+)", selectors):
            styles.setdefault(name, {}).update(properties)
    return styles


def _draw(axes: Any, mark: Mark, x: float, y: float) -> None:
    """Draws a mark, moved by x and y."""
    from matplotlib.patches import Circle, PathPatch, Rectangle
    from matplotlib.path import Path as Outline
    from matplotlib.patheffects import withStroke

    style: dict[str, str] = {}
    for name in mark.style.split():
        style |= _styles().get(name, {})
    if isinstance(mark, Text):
        axes.text(
            mark.x + x,
            mark.y + y,
            mark.text,
            color=style.get("fill", "black"),
            fontsize=_length(style.get("font-size", "11px")),
            fontweight="bold" if "font-weight" in style else "normal",
            ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
            va="baseline",
            parse_math=False,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
        return
    paint = _paint(style)
    if isinstance(mark, Path):
        axes.add_patch(PathPatch(Outline(*_outline(mark.d, x, y)), **paint))
    elif isinstance(mark, Dot):
        axes.add_patch(Circle((mark.x + x, mark.y + y), mark.r, **paint))
    elif isinstance(mark, Box):
        axes.add_patch(Rectangle((mark.x + x, mark.y + y), mark.width, mark.height, **paint))


def _length(text: str) -> float:
    return float(text.removesuffix("px"))


def _paint(style: dict[str, str]) -> dict[str, Any]:
    """The properties of a patch."""
    from matplotlib.colors import to_rgba

    fill, stroke = style.get("fill", "none"), style.get("stroke", "none")
    dashes = [float(length) for length in style.get("stroke-dasharray", "").split()]
    return {
        "facecolor": "none" if fill == "none" else to_rgba(fill, _opacity(style, "fill")),
        "edgecolor": "none" if stroke == "none" else to_rgba(stroke, _opacity(style, "stroke")),
        "linewidth": 0.0 if stroke == "none" else _length(style.get("stroke-width", "1")),
        "linestyle": (0, dashes) if dashes else "solid",
        "capstyle": "butt",
        "joinstyle": "round",
        "clip_on": False,
    }


def _opacity(style: dict[str, str], paint: str) -> float:
    return float(style.get(f"{paint}-opacity", "1"))


def _outline(d: str, x: float, y: float) -> tuple[list[tuple[float, float]], list[int]]:
    """The corners and the codes of a path of M, L, H, V and Z, moved by x and y."""
    from matplotlib.path import Path as Outline

    corners: list[tuple[float, float]] = []
    codes: list[int] = []
    for command, text in re.findall(r"([MLHVZ])([^MLHVZ]*)", d):
        numbers = [float(number) for number in text.split()]
        last = corners[-1] if corners else (0.0, 0.0)
        match command:
            case "H":
                corner = numbers[0] + x, last[1]
            case "V":
                corner = last[0], numbers[0] + y
            case "Z":
                corner = corners[0]
            case _:
                corner = numbers[0] + x, numbers[1] + y
        corners.append(corner)
        move = {"M": Outline.MOVETO, "Z": Outline.CLOSEPOLY}
        codes.append(int(move.get(command, Outline.LINETO)))
    return corners, codes
