"""Schemas of a study's plain reports: JSON Schema and Avro."""

from __future__ import annotations

from typing import Any

from stream_dp.population.reports import LARGEST_REPORT, LONGEST_ID
from stream_dp.study import Attribute, Study

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LARGEST = (1 << 63) - 1  # of a whole number in a report
_OF_PLACE = "The key of a place in the table of places, or 'absent' for nowhere."


def report_schema(study: Study) -> dict[str, Any]:
    """The JSON Schema (2020-12) of reports of which every cell can be used while its period is
    open.

    It cannot state what depends on more than the report: that a period is closed, that the
    population is full or a fixed value another, the record's size, what the study's rule of ids
    makes of an id, and whether a number written as text is on its scale. It takes 1.0 for the
    number 1, as JSON Schema does; the decoder does not.
    """
    ids: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
    numbers = {"type": "integer", "minimum": -_LARGEST, "maximum": _LARGEST}
    return {
        "$schema": DIALECT,
        "title": f"Report of the study {study.name}",
        "description": f"What one {study.unit} says for one period. At most {LARGEST_REPORT} bytes"
        " with key and headers, UTF-8; numbers are written without a fraction.",
        "type": "object",
        "required": ["person", "period", "values"],
        "properties": {
            "person": {"description": "A pseudonym.", "anyOf": [ids, numbers]},
            "period": {
                "description": "One of the study's periods, which is open or still to come.",
                "enum": _periods(study),
            },
            "values": {
                "description": "Answers by attribute; null clears one.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": {
                    name: _answer(attribute) for name, attribute in study.attributes.items()
                },
            },
        },
    }


def report_avro(study: Study) -> dict[str, Any]:
    """The Avro schema of reports, as `[run.input]` reads them with `format = "avro"` and
    `rows = "report"`. Which values are declared stands in the JSON Schema alone."""
    text_or_number = ["string", "long"]
    return {
        "type": "record",
        "name": "Report",
        "namespace": "stream_dp",
        "doc": f"What one {study.unit} of the study {study.name} says for one period.",
        "fields": [
            {"name": "person", "type": text_or_number, "doc": "A pseudonym."},
            {"name": "period", "type": text_or_number, "doc": "One of the study's periods."},
            {
                "name": "values",
                "type": {"type": "map", "values": ["null", *text_or_number]},
                "doc": f"By attribute ({', '.join(study.attributes)}), a declared value; null"
                " clears one.",
            },
        ],
    }


def _periods(study: Study) -> list[str | int]:
    """How a report may name each period: by its label, and where that is a number, by it."""
    labels = list(study.periods.labels)
    return [*labels, *dict.fromkeys(int(label) for label in labels if label.isdigit())]


def _answer(attribute: Attribute) -> dict[str, Any]:
    """The schema of one answer."""
    if attribute.place:
        return {"type": ["string", "integer", "null"], "description": _OF_PLACE}
    listed = {"enum": [*_written(attribute.codes), None]}
    scale = attribute.number
    if scale is None:
        return listed
    number = {
        "type": "integer",
        "minimum": scale.least,
        "maximum": scale.most,
        "multipleOf": scale.step,
    }
    text = {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,15})$"}
    words = f"{scale.words[:1].upper()}{scale.words[1:]}, or its digits as text."
    return {"description": words, "anyOf": [number, text, listed]}


def _written(codes: dict[int | str, int]) -> list[int | str]:
    """How a report may write each value; no report can have a number beyond 64 bits."""
    return [v for v in codes if isinstance(v, str) or abs(v) <= _LARGEST]
