"""Formulas of pages, from TeX to MathML, which browsers draw without a script or a font.

`$...$` is a formula in a sentence, a paragraph `$$...$$` one that stands by itself. A dollar sign
in code is left as it is.
"""

from __future__ import annotations

import re

from latex2mathml.converter import convert

_CODE_OR_FORMULA = re.compile(
    r"^```.*?^```|`[^`\n]+`|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"⟦(inline|block) ([0-9a-f]+)⟧")
FOLDERS = ("mechanisms/", "proofs/")


def marked(markdown: str) -> str:
    """The page with a word in the place of each formula, which Markdown leaves as it is."""

    def mark(match: re.Match[str]) -> str:
        for display in ("block", "inline"):
            if tex := match[display]:
                return f"⟦{display} {tex.encode().hex()}⟧"
        return match[0]

    return _CODE_OR_FORMULA.sub(mark, markdown)


def drawn(html: str) -> str:
    """The HTML of a page with its formulas as MathML."""

    def draw(match: re.Match[str]) -> str:
        tex = " ".join(bytes.fromhex(match[2]).decode().split())
        formula: str = convert(tex, display=match[1])
        return formula if match[1] == "inline" else f'<span class="formula">{formula}</span>'

    return _MARK.sub(draw, html)
