"""A reading as facts: in a table for people, in TOML for a file, and compared with others.

The facts are the options of `send` and what follows from the file, under the keys of `[run.input]`
where both have the same thing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from stream_dp.errors import UserError, visible
from stream_dp.study.number_texts import NumberTexts
from stream_dp.study.periods import CLOCK_UNITS
from stream_dp.study.study_text import toml_key, toml_value

from .column_layout import TableLayout
from .period_columns import PERIOD
from .reading import Reading
from .value_texts import Coding, Codings, ValueTexts

Facts = dict[str, Any]
# The facts that a call in Python may state of a table.
STATED = (
    *("dates", "zone", "languages", "decimal", "thousands", "round"),
    *("labels", "codes", "values", "nobody", "id_width", "columns"),
)
_MOST_LINES = 17  # of columns
_MOST_TEXTS = 4  # of a column
_MOST_NAMES = 12  # of columns in a line
_DIGITS = re.compile("[0-9]+")
_LONGEST = 40  # characters of a text
# Fields of a layout that the facts have under other keys, or that follow from each file.
_OTHERWISE = {"person", "period", "attribute", "columns", "values", "form", "group", "member"}
_OTHERWISE |= {"event", "codings", "numbers"}
_OF_FORM = ("row_names",)  # what a file's form decides about all files


def facts_of(reading: Reading) -> Facts:
    """The facts of a reading, for JSON and TOML.

    person, or group and member: the columns of ids.
    period: of a long table, the column of periods, or the period of all rows.
    attributes: of a long table, by attribute its column.
    attribute, columns: of a wide table, the attribute of its cells, and by column its period.
    event: the column with the numbers of events.
    labels: by column that holds labels, the labels of its codes; codes: columns that hold codes.
    values: by attribute, the values of texts.
    left_out: columns that appear in no report.

    Every other key is an option of `send` that is not at its default.
    """
    layout, header = reading.layout, reading.header
    facts: Facts = {"person": layout.person}
    if layout.member is not None:
        facts = {"group": layout.group, "member": layout.member}
    if layout.attribute is None:
        attributes = {header.attribute(s): header.column(s) for s in header.sources}
        facts |= {"period": header.period or layout.period, "attributes": attributes}
    else:
        columns = {source: period for source, (period, _) in header.sources.items()}
        facts |= {"attribute": layout.attribute, "columns": columns}
    if layout.event is not None:
        facts["event"] = layout.event
    coded = {header.column(source): texts for source, texts in reading.values.items()}
    coded |= {layout.period: reading.periods} if reading.periods.coding else {}
    facts |= {
        "labels": {c: dict(t.labels) for c, t in coded.items() if t.coding is Coding.LABELS},
        "codes": sorted(c for c, t in coded.items() if t.coding is Coding.CODES),
        "values": {name: dict(texts) for name, texts in layout.values.items()},
        "left_out": sorted(header.left_out),
    }
    marks = {"decimal": layout.numbers.decimal, "thousands": layout.numbers.thousands}
    facts |= {key: mark for key, mark in marks.items() if mark is not None}
    facts |= {"round": True} if layout.numbers.rounds else {}
    default = TableLayout()
    for key in (field.name for field in fields(layout) if field.name not in _OTHERWISE):
        if (value := getattr(layout, key)) != getattr(default, key):
            facts[key] = [*value] if isinstance(value, tuple) else value
    facts |= {key: True for key in _OF_FORM if getattr(layout.form, key)}
    return {key: value for key, value in facts.items() if value not in ({}, [])}


def accepted_layout(facts: Facts, layout: TableLayout) -> TableLayout:
    """The layout of an accepted reading. Options of `layout` that are not at their default win.

    Raises UserError for facts that no reading has.
    """
    numbers = {key for key, value in facts.items() if isinstance(value, int)}
    if not all(map(_is_fact, facts.values())) or numbers - {"id_width", "round", *_OF_FORM}:
        raise UserError("is no reading that 'send --reading' wrote")
    default = vars(TableLayout())
    options = {k: v for k, v in facts.items() if k in default.keys() - {"form"}}
    names = {column: name for name, column in facts.get("attributes", {}).items()}
    periods = {facts.get("period"): PERIOD}
    left_out = dict.fromkeys(facts.get("left_out", []), "")
    renamed = {column: name for column, name in names.items() if column != name}
    options["columns"] = renamed | facts.get("columns", {}) | left_out
    attribute: str = facts.get("attribute", "")
    coded = [
        frozenset((periods | names).get(column, attribute) for column in facts.get(key, []))
        for key in ("labels", "codes")
    ]
    options["codings"] = Codings(*coded)
    options["numbers"] = NumberTexts(
        facts.get("decimal"), facts.get("thousands"), facts.get("round") is True
    )
    decided: dict[str, Any] = {key: True for key in _OF_FORM if facts.get(key) is True}
    for key, value in vars(layout).items():
        if isinstance(value, Mapping):
            options[key] = options.get(key, {}) | value
        elif value != default[key]:
            options[key] = value
        elif isinstance(value, tuple):
            options[key] = tuple(options.get(key, ()))
    return replace(layout, **options | {"form": replace(layout.form, **decided)})


def stated_layout(reading: Mapping[str, object] | None, layout: TableLayout) -> TableLayout:
    """The layout with what the argument `reading` of a call says. Raises UserError."""
    if reading is None:
        return layout
    if not isinstance(reading, Mapping):
        raise UserError("reading: must be a mapping such as {'decimal': ','}")
    if unknown := [key for key in reading if key not in STATED]:
        raise UserError(f"reading: has no '{unknown[0]}'; there are {', '.join(STATED)}")
    facts = {key: [*value] if isinstance(value, tuple) else value for key, value in reading.items()}
    try:
        return accepted_layout(facts, layout)
    except (UserError, TypeError, AttributeError):
        raise UserError("reading: write texts, lists of texts, and mappings of texts") from None


def _is_fact(value: object) -> bool:
    """Whether a fact has a type given by `facts_of`."""
    if isinstance(value, dict):
        return all(map(_is_fact, value.values()))
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (str, int))


def facts_text(facts: Facts) -> str:
    """The facts in TOML."""
    plain = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in plain.items()]
    for key in (key for key in facts if key not in plain):
        lines += _table(toml_key(key), facts[key])
    return "\n".join(lines) + "\n"


def _table(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """A table in TOML, with a table per mapping in it."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if plain or not table:
        yield from ("", f"[{name}]")
    for key, value in plain.items():
        yield f"{toml_key(key)} = {toml_value(value)}"
    for key in (key for key in table if key not in plain):
        yield from _table(f"{name}.{toml_key(key)}", table[key])


def facts_in(text: str) -> Facts:
    """The facts that `facts_text` wrote. Raises UserError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"is no TOML: {error}") from None


def differences(accepted: Facts, facts: Facts) -> list[str]:
    """The differing facts, a line per fact; empty for the same reading.

    A column of a wide table for a later period, named like the others, is no difference.
    """
    before, now = dict(_leaves(accepted)), dict(_leaves(_without_new_periods(accepted, facts)))
    return [
        f"{_short('.'.join(map(toml_key, key)))} {_compared(now.get(key), before.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


def _without_new_periods(accepted: Facts, facts: Facts) -> Facts:
    """The facts without columns of later periods named like accepted columns."""
    known, columns = accepted.get("columns"), facts.get("columns")
    if not isinstance(known, Mapping) or not isinstance(columns, Mapping):
        return facts
    named = {_DIGITS.sub("0", column) for column in known}
    kept = {
        column: period
        for column, period in columns.items()
        if column in known or period in known.values() or _DIGITS.sub("0", column) not in named
    }
    return facts | {"columns": kept}


def _leaves(
    facts: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The facts as texts, by their keys. Every name in a list is a separate fact."""
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        elif isinstance(value, list):
            yield from (((*above, key, str(item)), "listed") for item in value)
        else:
            yield (*above, key), str(value)


def _compared(now: str | None, before: str | None) -> str:
    """Two values of a fact in words."""
    shown = ["nothing" if value is None else f"'{_short(value)}'" for value in (now, before)]
    return f"is {shown[0]}, in the accepted reading {shown[1]}"


def reading_lines(reading: Reading) -> list[str]:
    """The reading as a table for people, a line a column: its name, its meaning, its texts."""
    rows = [("column", "meaning", "texts"), *_key_rows(reading), *_value_rows(reading)]
    shown = rows if len(rows) <= _MOST_LINES else [*rows[: _MOST_LINES - 2], rows[-1]]
    widths = [max(len(row[i]) for row in shown) for i in range(2)]
    lines = [f"  {n:<{widths[0]}}  {m:<{widths[1]}}  {texts}".rstrip() for n, m, texts in shown]
    if len(rows) > len(shown):
        lines.insert(-1, f"  and {len(rows) - len(shown)} columns more, and at last")
    if left_out := reading.header.left_out:
        more = f", and {len(left_out) - _MOST_NAMES} more" if left_out[_MOST_NAMES:] else ""
        lines.append(f"  left out: {', '.join(map(_short, left_out[:_MOST_NAMES]))}{more}")
    return lines


def _key_rows(reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Rows of the columns of ids, periods and events."""
    layout, header = reading.layout, reading.header
    width, nobody = layout.id_width, layout.nobody
    texts = "as they stand" if width is None else f"zeros in front of fewer than {width} digits"
    texts += f"; nobody: {', '.join(map(_short, nobody[:_MOST_TEXTS]))}" if nobody else ""
    texts += ", ..." if len(nobody) > _MOST_TEXTS else ""
    if not layout.ids:
        yield "(each row)", "person", "the name of the file and the number of the row"
    elif layout.member is None:
        yield _short(layout.person), "person", texts
    else:
        yield _short(layout.group), "person: group", texts
        yield _short(layout.member), "person: number in the group", texts
    if header.period:
        yield "(all rows)", "period", header.period
    elif layout.attribute is None:
        yield _short(layout.period), "period", _period_texts(reading)
    if layout.event is not None:
        yield _short(layout.event), "event", f"numbers from 1 to {header.most_events}"


def _period_texts(reading: Reading) -> str:
    """How the texts of a column of periods become periods, in words."""
    layout, periods, zone = reading.layout, reading.study.periods, reading.texts.zone
    words = [f"{periods.every}s such as {periods.labels[0]}"]
    if layout.dates is not None:
        words.append(f"dates as {layout.dates}")
    elif periods.every != "step":
        words.append(f"or {'times' if periods.every in CLOCK_UNITS else 'dates'} in them")
    words += [f"names of months in {', '.join(layout.languages)}"] * bool(layout.languages)
    counted = "times" if periods.every in CLOCK_UNITS else "days"
    words += [f"{counted} of {zone}"] * (zone is not None)
    mapped = layout.values.get(PERIOD, {})
    known = replace(reading.periods, mapped=mapped)
    return f"{', '.join(words)}; {_texts(known)}" if known.coding or mapped else ", ".join(words)


def _value_rows(reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Rows of the columns of values, one for all events of a column."""
    seen = set[str]()
    for source, (period, name) in reading.header.sources.items():
        column = reading.header.column(source)
        if column not in seen:
            seen.add(column)
            meaning = f"{name} in {period}"
            if not period:
                meaning = f"attribute {reading.header.attribute(source)}"
            number = reading.study.attributes[name].number is not None
            words = _texts(reading.values[source], number=number)
            marks = reading.layout.numbers if reading.numbers.get(source) else NumberTexts()
            words += f", decimal mark {marks.decimal}" if marks.decimal else ""
            words += f", mark of thousands '{marks.thousands}'" if marks.thousands else ""
            words += ", rounded" if marks.rounds and number else ""
            yield _short(column), meaning, words


def _texts(texts: ValueTexts, *, number: bool = False) -> str:
    """How the texts of a column become values, in words."""
    words = {
        Coding.LABELS: f"labels: {_pairs(texts.labels, 'is')}",
        Coding.CODES: f"codes, not labels: {_pairs(texts.labels, 'is labelled')}",
        None: "whole numbers" if number else "as they stand",
    }[texts.coding]
    return f"{words}; map: {_pairs(texts.mapped, 'is')}" if texts.mapped else words


def _pairs(meanings: Mapping[str, str], verb: str) -> str:
    """The first texts of a mapping with their meanings."""
    pairs = [
        f"{_short(text)} {verb} {_short(meaning) or 'no answer'}"
        for text, meaning in list(meanings.items())[:_MOST_TEXTS]
    ]
    return ", ".join(pairs) + (", ..." if len(meanings) > _MOST_TEXTS else "")


def _short(text: str) -> str:
    """A text on one line, and not too long for a table."""
    text = visible(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
