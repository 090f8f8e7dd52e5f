"""Rows of columns as plain reports, and as reports that clear what a row said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_dp.study import Study
from stream_dp.study.intake import Input

_MISSING = object()
_NO_VALUE = False  # what the decoder takes for no id, no period and no value


class RowReader:
    """Reads rows, which are JSON objects or what Avro has in their place."""

    def __init__(self, study: Study, declared: Input) -> None:
        columns = declared.attributes or {name: name for name in study.attributes}
        self._person, self._period = _column(declared.person), _column(declared.period)
        self._cells = [
            (name, _column(column), declared.mapped_values(name))
            for name, column in columns.items()
        ]
        used = (declared.person, declared.period, *columns.values())
        self._used = {_pointed(c)[0] if c.startswith("/") else c for c in used}
        self._refuses_extra = declared.extra == "refuse"

    def report(self, row: Any) -> dict[str, Any] | None:
        """The report of a row; None for what is no row."""
        if not isinstance(row, dict):
            return None
        values: dict[str, Any] = {}
        for name, column, mapped in self._cells:
            value = column(row)
            if value is not _MISSING:
                values[name] = _mapped(value, mapped) if mapped else plain_value(value)
        if self._refuses_extra:
            # No declared attribute has a name with a blank in it.
            values |= {f"column {name}": _NO_VALUE for name in row.keys() - self._used}
        return self._framed(row, values)

    def withdrawal(self, row: Any) -> dict[str, Any] | None:
        """The report that clears the cells of a row; None for what is no row.

        These are the attributes whose columns the row has, or all that are mapped where it has
        none of them, as a row that is cut down to its key.
        """
        if not isinstance(row, dict):
            return None
        names = [name for name, column, _ in self._cells if column(row) is not _MISSING]
        names = names or [name for name, _, _ in self._cells]
        return self._framed(row, dict.fromkeys(names))

    def has_moved(self, before: Any, after: Any) -> bool:
        """Whether a row that was changed had cells of another person or period before."""
        if not isinstance(before, dict) or not isinstance(after, dict):
            return False
        old, new = ([self._person(row), self._period(row)] for row in (before, after))
        return all(_is_text(part) for part in old) and list(map(str, old)) != list(map(str, new))

    def _framed(self, row: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        report: dict[str, Any] = {"values": values}
        for name, column in (("person", self._person), ("period", self._period)):
            value = column(row)
            if value is not _MISSING:
                report[name] = plain_value(value)
        return report


def plain_report(value: Any) -> dict[str, Any] | None:
    """A report that lies in an envelope, without what JSON has no plain form for."""
    if not isinstance(value, dict):
        return None
    report = {k: plain_value(value[k]) for k in ("person", "period") if k in value}
    values = value.get("values")
    if isinstance(values, dict):
        report["values"] = {str(name): plain_value(cell) for name, cell in values.items()}
    return report


def plain_value(value: Any) -> Any:
    """Text, whole numbers and null as they are; for anything else what the decoder refuses."""
    return value if value is None or value.__class__ in (str, int) else _NO_VALUE


def _is_text(value: Any) -> bool:
    return value is not None and plain_value(value) is not _NO_VALUE and value is not _MISSING


def _mapped(value: Any, mapped: dict[str, int | str]) -> Any:
    """The value that a column's value is mapped to."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        return plain_value(value)
    return mapped[text] if text in mapped else plain_value(value)


def _column(name: str) -> Callable[[dict[str, Any]], Any]:
    """What reads a column: by its name, or by a JSON Pointer (RFC 6901) through objects."""
    if not name.startswith("/"):
        return lambda row: row.get(name, _MISSING)
    path = _pointed(name)

    def read(row: Any) -> Any:
        for part in path:
            if not isinstance(row, dict) or part not in row:
                return _MISSING
            row = row[part]
        return row

    return read


def _pointed(pointer: str) -> list[str]:
    """The names in a JSON Pointer."""
    parts = pointer[1:].split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]
