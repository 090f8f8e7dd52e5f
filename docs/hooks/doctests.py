"""An extension of Griffe: examples of docstrings become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", re.DOTALL)


class Doctests(griffe.Extension):
    """Fences what begins with `>>>` after an empty line, up to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(
                lambda match: f"```python\n{match[0]}\n```", obj.docstring.value
            )
