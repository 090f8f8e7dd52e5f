"""The picture of the architecture: processes and stores, confidential or public."""

from __future__ import annotations

from functools import cache
from typing import Any

from drawings import COLOURS, TEXT, Drawing, drawn, settings
from matplotlib import patches, pyplot

CAPTION = (
    "The processes (filled) and the stores of a study. Only the public log leaves the"
    " confidential side (dashed)."
)
# Name, left edge and height of each box, and whether it is a process.
BOXES = {
    "senders": (0.0, 2.0, True),
    "reports": (2.0, 2.0, False),
    "releaser": (4.0, 2.0, True),
    "journal": (6.0, 2.0, False),
    "public log": (8.4, 2.0, False),
    "analysts": (10.4, 2.0, True),
    "monitor": (10.4, 3.4, True),
    "aggregator": (2.0, 3.4, True),
    "snapshots": (4.0, 3.4, False),
    "jobs": (4.0, 0.6, False),
    "worker": (6.0, 0.6, True),
}
ARROWS = (
    ("senders", "reports"),
    ("reports", "releaser"),
    ("releaser", "journal"),
    ("journal", "public log"),
    ("public log", "analysts"),
    ("public log", "monitor"),
    ("reports", "aggregator"),
    ("aggregator", "snapshots"),
    ("snapshots", "releaser"),
    ("releaser", "jobs"),
    ("jobs", "worker"),
)
_WIDTH, _HEIGHT = 1.5, 0.7


def _ends(start: str, end: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The points at which an arrow leaves one box and meets the other."""
    (x, y, _), (to_x, to_y, _) = BOXES[start], BOXES[end]
    if x == to_x:
        middle, up = x + _WIDTH / 2, to_y > y
        return (middle, y + _HEIGHT * up), (middle, to_y + _HEIGHT * (not up))
    return (x + _WIDTH, y + _HEIGHT / 2), (to_x, to_y + _HEIGHT / 2)


def _draw(axes: Any) -> None:
    side = patches.Rectangle(
        (1.75, 0.2), 6.0, 4.3, fill=False, edgecolor=TEXT, linestyle="--", linewidth=0.8
    )
    axes.add_patch(side)
    axes.text(1.85, 4.62, "confidential", fontsize=9, style="italic")
    for name, (x, y, process) in BOXES.items():
        colour = COLOURS[0] if process else COLOURS[3]
        for alpha, fill in ((0.18, process), (1.0, False)):
            box = patches.FancyBboxPatch(
                (x, y),
                _WIDTH,
                _HEIGHT,
                boxstyle="round,pad=0.04",
                fill=fill,
                facecolor=colour if fill else "none",
                edgecolor=colour,
                alpha=alpha,
            )
            axes.add_patch(box)
        axes.text(x + _WIDTH / 2, y + _HEIGHT / 2, name, ha="center", va="center", fontsize=9)
    for start, end in ARROWS:
        tail, head = _ends(start, end)
        axes.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": TEXT, "lw": 1})


@cache
def drawing() -> Drawing:
    """The picture as an element of a page with a text alternative."""
    with settings():
        figure, axes = pyplot.subplots(figsize=(7.4, 3.0))
        axes.set_axis_off()
        axes.set_xlim(-0.2, 12.1)
        axes.set_ylim(0, 4.9)
        _draw(axes)
        return drawn(figure, CAPTION)
