"""Schemas of a study's plain reports: JSON Schema and Avro."""

from __future__ import annotations

from stream_dp.json_object import Json
from stream_dp.population.report_decoding import LARGEST_REPORT
from stream_dp.population.report_judging import LONGEST_ID
from stream_dp.study import Attribute, Study

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LARGEST = (1 << 63) - 1  # of a whole number in a report
_OF_PLACE = "The key of a place in the table of places, or 'absent' for nowhere."


def report_schema(study: Study) -> Json:
    """The JSON Schema (2020-12) of reports with usable cells, while their period is open.

    The schema cannot state rules about more than the report: closed periods, a full population,
    contradictions of fixed values, the record's size, the study's rule of ids, and the scales of
    numbers in texts.
    """
    ids: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
    numbers = {"type": "integer", "minimum": -_LARGEST, "maximum": _LARGEST}
    labels = study.periods.labels
    digits = (int(label) for label in labels if label.removeprefix("-").isdigit())
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
                "enum": [*labels, *dict.fromkeys(digits)],
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


def report_avro(study: Study) -> Json:
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


def _answer(attribute: Attribute) -> Json:
    """The schema of one answer."""
    if attribute.place:
        return {"type": ["string", "integer", "null"], "description": _OF_PLACE}
    # A report cannot write numbers beyond 64 bits.
    listed_codes = (*attribute.codes, *sorted(attribute.no_answers, key=str))
    written = [v for v in listed_codes if isinstance(v, str) or abs(v) <= _LARGEST]
    listed = {"enum": [*written, None]}
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
    description = f"{scale.words[:1].upper()}{scale.words[1:]}, or its digits as text."
    return {"description": description, "anyOf": [number, text, listed]}
