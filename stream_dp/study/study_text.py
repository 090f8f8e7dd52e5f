"""A `Study` as the text of a study file, without [run]."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from stream_dp.json_object import Json

from . import Study

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NUMBERS = frozenset({"rho", "share", "delta", "failure", "size_share", "window_share"})
_HEAD = ("name", "description", "unit", "neighbours", "rho", "delta")


def study_text(study: Study) -> str:
    """The declaration in TOML; `parse_study` gives the same study.

    Of `strata` and `waves` it has each release by itself.
    """
    raw = study.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    head = {key: raw[key] for key in _HEAD if key in raw}
    lines = [*_table("study", head)]
    for key in ("periods", "population", "ids", "curator"):
        if key in raw:
            lines += _table(f"study.{key}", raw[key])
    for name, attribute in raw["attributes"].items():
        lines += _table(f"attributes.{toml_key(name)}", attribute)
    if "groups" in raw:
        lines += _table("groups", raw["groups"])
    for table in raw["releases"]:
        lines += _table("releases", _with_share(table, study.rho, 1), repeated=True)
    for batch, table in zip(study.batches or (), raw.get("batches", ()), strict=True):
        data_sets = len(study.due_periods(batch))
        lines += _table("releases", _with_share(table, study.rho, data_sets), repeated=True)
    return "\n".join(lines[1:]) + "\n"


def _with_share(table: Json, rho: Fraction, data_sets: int) -> Json:
    """A release with `share` in place of `rho`, unless another key determines its price."""
    if "epsilon" in table:
        return table
    share = Fraction(table["rho"]) * data_sets / rho
    return {
        ("share" if k == "rho" else k): str(share) if k == "rho" else v for k, v in table.items()
    }


def _table(name: str, table: Mapping[str, object], *, repeated: bool = False) -> Iterator[str]:
    yield ""
    yield f"[[{name}]]" if repeated else f"[{name}]"
    for key, value in table.items():
        yield f"{toml_key(key)} = {toml_value(value, number=key in _NUMBERS)}"


def toml_key(name: str) -> str:
    """A key in TOML, in quotes where these are needed."""
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """A basic string: TOML escapes like JSON, and escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: object, *, number: bool = False) -> str:
    """A value in TOML, on one line. number: whether a text is an exact number."""
    if isinstance(value, str):
        return _number(value) if number else _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        inner = (f"{toml_key(k)} = {toml_value(v, number=k in _NUMBERS)}" for k, v in value.items())
        return f"{{ {', '.join(inner)} }}"
    return json.dumps(value)


def _number(text: str) -> str:
    """A fraction as a decimal if the decimal is exact and short: 1/200 is 0.005."""
    exact = Fraction(text)
    decimal = f"{float(exact):.12f}".rstrip("0")
    decimal += "0" * decimal.endswith(".")
    return decimal if Fraction(decimal) == exact else _text(text)
