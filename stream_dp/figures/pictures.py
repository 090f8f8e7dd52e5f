"""Pictures of charts by themselves, as SVG and as PNG.

resvg draws the PNG from the SVG, with the fonts of this package: a machine without fonts draws the
same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stream_dp.errors import missing_extra

from .marks import Mark, escaped

_PIXELS_PER_UNIT = 2
_FONTS = Path(__file__).with_name("fonts")


@dataclass(frozen=True)
class Placed:
    """Marks, moved by x and y."""

    x: float
    y: float
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Picture:
    """Marks on white. description: the sentence that reads the picture aloud."""

    title: str
    description: str
    width: float
    height: float
    parts: tuple[Placed, ...]

    def svg(self) -> str:
        """The picture as a self-contained SVG in the light colours."""
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
            f' viewBox="0 0 {self.width} {self.height}"'
            ' font-family="DejaVu Sans, Verdana, sans-serif" role="img">',
            f"<title>{escaped(self.title)}</title>",
            f"<desc>{escaped(self.description)}</desc>",
            f"<style>\n{_light_rules()}</style>",
            f'<rect {size} fill="#ffffff"/>',
        ]
        for placed in self.parts:
            lines.append(f'<g transform="translate({placed.x} {placed.y})">')
            lines += [mark.svg for mark in placed.marks]
            lines.append("</g>")
        return "\n".join([*lines, "</svg>", ""])

    def png(self) -> bytes:
        """The picture as PNG, two pixels per unit. Raises UserError without resvg."""
        try:
            from resvg_py import svg_to_bytes
        except ImportError:
            raise missing_extra("PNG: needs resvg", "monitor") from None
        drawn = svg_to_bytes(
            svg_string=self.svg(),
            zoom=_PIXELS_PER_UNIT,
            skip_system_fonts=True,
            font_files=[str(_FONTS / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")],
        )
        return bytes(drawn)


def mark_rules() -> str:
    """The style sheet of marks: their colours, as variables, and a rule for each class."""
    return Path(__file__).with_name("marks.css").read_text("utf-8")


@cache
def _light_rules() -> str:
    """The rules of marks, with the light colours filled in."""
    colours, _, rules = mark_rules().partition("}\n")
    light = dict(re.findall(r"--([\w-]+): (#\w+)", colours))
    return re.sub(r"var\(--([\w-]+)\)", lambda match: light[match[1]], rules)
