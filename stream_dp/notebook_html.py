"""Short tables in HTML, which notebooks show of a value (`_repr_html_`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LONGEST = 300  # characters of a cell


def html_text(value: object) -> str:
    """A value as text in HTML: escaped, short, with control and direction marks spelled out.

    >>> html_text("<b>")
    '&lt;b&gt;'
    """
    text = str(value)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return escape("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in short))


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A caption and a row per fact, its name first."""
    rows = "".join(
        f"<tr><th scope='row'>{html_text(name)}</th><td>{html_text(value)}</td></tr>"
        for name, value in facts
    )
    return f"<table><caption>{html_text(title)}</caption>{rows}</table>"


def html_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A caption, the names of columns, and rows of cells."""
    head = "".join(f"<th scope='col'>{html_text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{html_text(title)}</caption><tr>{head}</tr>{body}</table>"
