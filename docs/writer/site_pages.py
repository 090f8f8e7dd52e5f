"""A hook of MkDocs: what a page of the site needs beside its Markdown."""

from __future__ import annotations

import re
from typing import Any

import formulas

_CODE = re.compile(r"<pre\b.*?</pre>|(?<=<code>)[^<]+(?=</code>)", re.DOTALL)
_HYPHENATED = re.compile(r"[^\s-]*-\S*")
_LONGEST_WORD = 24  # that fits on the line of a telephone
_WIDE = re.compile(r"<img [^>]*images/(?:sequences|architecture)/[^>]*>")
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=.?(?:https?:)?//")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with the source of every page."""
    if page.file.src_uri.startswith(formulas.FOLDERS):
        return formulas.marked(markdown)
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page."""
    html = _WIDE.sub(r'<span class="wide">\g<0></span>', html)
    return formulas.drawn(_CODE.sub(_with_whole_words, html))


def _with_whole_words(code: re.Match[str]) -> str:
    """Code in a sentence, whose options a browser would break after their hyphens, and whose `|`
    is escaped in the cell of a table."""

    def whole(word: re.Match[str]) -> str:
        return f'<span class="word">{word[0]}</span>' if len(word[0]) <= _LONGEST_WORD else word[0]

    if code[0].startswith("<pre"):
        return code[0]
    return _HYPHENATED.sub(whole, code[0].replace(r"\|", "|"))


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Called by MkDocs with every page as it is written. Raises ValueError where a page would load
    anything from another host."""
    if _FOREIGN.search(output):
        raise ValueError(f"{page.file.src_uri}: loads something from another host")
