"""Renders templates to HTML: escapes every value, and spells out marks of writing direction."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from stream_dp.errors import visible
from stream_dp.figures.marks import mark_rules

STUDIES = "/studies/"  # what the paths of a study begin with, on a monitor of several


def render(template: str, *, root: str = "", **values: object) -> str:
    """The text of a file in `templates/`, filled with values.

    root: the path that all links of a page begin with, such as /studies/poverty.
    """
    outer, among_studies, _ = root.rpartition(STUDIES)
    front = f"{outer}/" if among_studies else ""
    return _environment().get_template(template).render(values, root=root, front=front)


def compile_templates() -> None:
    """Compiles every template, for forks that would each compile what they render."""
    for file in resources.files("stream_dp.services.monitor").joinpath("templates").iterdir():
        _environment().get_template(file.name)


# By path, the media types of files that pages load.
ASSETS = {
    "/icon.svg": "image/svg+xml",
    "/style.css": "text/css; charset=utf-8",
    "/monitor.js": "text/javascript; charset=utf-8",
    "/verifier.mjs": "text/javascript; charset=utf-8",
}


def resource(name: str) -> str:
    """The text of a file of this folder; that of the style sheet begins with the rules of marks."""
    text = resources.files("stream_dp.services.monitor").joinpath(name).read_text("utf-8")
    return mark_rules() + text if name == "style.css" else text


def offline_policy(style: str, *scripts: str) -> str:
    """The content security policy of a page in a file: this style, these scripts, nothing else."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (style, *scripts)
    ]
    sources = f"style-src {hashes[0]}; script-src {' '.join(hashes[1:])}"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


@cache
def _environment() -> Environment:
    """The templates with their filters; a name that is not given is an error."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(lambda name: resource(f"templates/{name}")),
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["rho"] = lambda value: f"{float(value):.6g}"
    environment.filters["commas"] = lambda value: f"{value:,}"
    environment.filters["code"] = _code
    return environment


def _code(text: str) -> Markup:
    """A docstring's words, with the parts between backticks as code."""
    pieces = " ".join(text.split()).split("`")
    form = Markup("<code>{}</code>").format
    return Markup("").join(form(piece) if i % 2 else piece for i, piece in enumerate(pieces))


def _shown(value: Any) -> Any:
    """Escapes ends of lines and marks of writing direction in a text.

    Rendered markup is a subclass of str and is returned unchanged.
    """
    return visible(value) if type(value) is str else value


def power(value: Any) -> str:
    """A power of ten with a superscript, 10⁻⁶; any other number in decimals.

    >>> power(1e-6), power(0.25)
    ('10⁻⁶', '0.25')
    """
    number = float(value)
    exponent = round(math.log10(number))
    if not math.isclose(number, 10.0**exponent):
        return f"{number:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
