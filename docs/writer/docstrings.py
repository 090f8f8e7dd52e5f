"""Docstrings as Markdown, with lists of arguments and blocks of code."""

from __future__ import annotations

import re

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", re.DOTALL)
# `name, other: what they are`, whose next lines are indented.
_ARGUMENT = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*): (?=\S)", re.MULTILINE)


def markdown(docstring: str) -> str:
    """The docstring with a list item for each argument, and each example as code."""
    parts = re.split(r"(\n\n+)", docstring)
    for i, part in enumerate(parts):
        if part.startswith(">>> "):
            continue
        listed = _ARGUMENT.sub(lambda match: f"- `{match[1]}`: ", part)
        # A list begins after an empty line, and text after a list does as well.
        if not listed.startswith("- `"):
            listed = re.sub(r"(?<=\n)(?=- `)", "\n", listed, count=1)
        parts[i] = re.sub(r"(\n(?: {4}|- `)[^\n]*)\n(?=[^\s-])", r"\1\n\n", listed)
    text = "".join(parts)
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)
