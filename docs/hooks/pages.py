"""A hook of MkDocs that generates parts of pages from the code.

The line `<!-- generated: NAME -->` of a page is replaced by the text of `MAKERS[NAME]`. Pages of
results have tables, figures and numbers of measured data beside it (`result_tables.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import architecture_picture
import commands
import formulas
import logs
import mechanism_pictures
import metrics
import operating
import python_api
import readme
import reports
import result_figures
import result_tables
import sequence_pictures
import study_keys

MAKERS: dict[str, Callable[[], str]] = {
    "study file": study_keys.markdown,
    "commands": commands.markdown,
    "metrics": metrics.markdown,
    "alerts": metrics.alerts,
    "events": logs.markdown,
    "reasons": reports.reasons,
    "introduction": readme.introduction,
    "try it": partial(readme.section, "Try it without Kafka"),
    "on kafka": partial(readme.section, "On Kafka in five minutes"),
    "operations": operating.markdown,
    "exit codes": partial(operating.section, "Exit codes"),
    "upgrading": partial(operating.section, "Upgrading and going back"),
    **{f"python {page}": partial(python_api.markdown, page) for page in python_api.NAMES},
}
_MARK = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
_TABLE = re.compile(r"^<!-- table: (.+) -->$", re.MULTILINE)
_FIGURE = re.compile(r"<!-- figure: (.+?) -->")
_PICTURE = re.compile(r"<!-- picture: (.+?) -->")
_SEQUENCE = re.compile(r"<!-- sequence: (.+?) -->")
_CODE = re.compile(r"<pre\b.*?</pre>|(?<=<code>)[^<]+(?=</code>)", re.DOTALL)
_HYPHENATED = re.compile(r"[^\s-]*-\S*")
_LONGEST_WORD = 24  # that fits on the line of a telephone
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=.?(?:https?:)?//")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with the source of every page. Raises KeyError for an unknown name."""
    markdown = _MARK.sub(lambda match: MAKERS[match[1]](), markdown)
    markdown = _TABLE.sub(lambda match: result_tables.read(match[1]).markdown(), markdown)
    markdown = result_tables.with_numbers(markdown)
    if page.file.src_uri.startswith(formulas.FOLDERS):
        return formulas.marked(markdown)
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of every page: Markdown would break lines of a figure."""
    html = _FIGURE.sub(lambda match: result_figures.svg(match[1]), html)
    html = _PICTURE.sub(lambda match: mechanism_pictures.svg(match[1]), html)
    html = _SEQUENCE.sub(lambda match: sequence_pictures.svg(match[1]), html)
    html = html.replace("<!-- architecture -->", architecture_picture.svg())
    return formulas.drawn(_CODE.sub(_with_whole_words, html))


def _with_whole_words(code: re.Match[str]) -> str:
    """Code in a sentence, whose options a browser would break after their hyphens."""

    def whole(word: re.Match[str]) -> str:
        return f'<span class="word">{word[0]}</span>' if len(word[0]) <= _LONGEST_WORD else word[0]

    return code[0] if code[0].startswith("<pre") else _HYPHENATED.sub(whole, code[0])


def on_files(files: Any, **_: Any) -> None:
    """Called by MkDocs: every name of `MAKERS` must be asked for by a page."""
    pages = [f for f in files if f.src_uri.endswith(".md")]
    asked = {m for f in pages for m in _MARK.findall(Path(f.abs_src_path).read_text("utf-8"))}
    if unused := MAKERS.keys() - asked:
        raise ValueError(f"no page asks for {', '.join(sorted(unused))}")


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Called by MkDocs with every page as it is written. Raises ValueError where a page would load
    anything from another host."""
    if _FOREIGN.search(output):
        raise ValueError(f"{page.file.src_uri}: loads something from another host")
