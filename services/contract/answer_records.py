"""Answers as records of JSON with their schema, as Kafka Connect's JsonConverter reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args, get_type_hints

from stream_dp.answers.flat_answers import FlatAnswer
from stream_dp.json_object import Json
from stream_dp.log.log import Record
from stream_dp.log.message import canonical
from stream_dp.study.topics import ESTIMATES

KEY = ("study", "release", "period", "region", "query", "measure")  # which answer it is
MESSAGE = "stream-dp-message"  # the header with the hash of the publication
_CONNECT = {str: "string", float: "double", bool: "boolean"}
_JSON = {str: "string", float: "number", bool: "boolean"}


def _fields() -> list[tuple[str, type, bool]]:
    """The name, the type and whether None is allowed, of each field of an answer."""
    fields = []
    for name, hint in get_type_hints(FlatAnswer).items():
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
        fields.append((name, kinds[0], type(None) in get_args(hint)))
    return fields


CONNECT_SCHEMA: Json = {
    "type": "struct",
    "name": "stream-dp.estimate",
    "version": 1,
    "optional": False,
    "fields": [
        {"field": name, "type": _CONNECT[kind], "optional": optional}
        for name, kind, optional in _fields()
    ],
}


def answer_schema() -> Json:
    """The JSON Schema of an answer."""
    return {
        "type": "object",
        "properties": {
            name: {"type": [_JSON[kind], "null"] if optional else _JSON[kind]}
            for name, kind, optional in _fields()
        },
        "required": [name for name, _, _ in _fields()],
        "additionalProperties": False,
    }


def answer_records(answers: Iterable[FlatAnswer], time: float | None) -> list[Record]:
    """A record for each answer. time: the publication's scheduled time in Unix seconds."""
    stamp = 0 if time is None else max(0, round(time * 1000))
    return [
        Record(
            ESTIMATES,
            canonical({"schema": CONNECT_SCHEMA, "payload": answer._asdict()}),
            canonical([getattr(answer, name) for name in KEY]),
            headers=(
                ("content-type", b"application/json"),
                (MESSAGE, answer.message.encode()),
            ),
            partition=0,
            time=stamp,
        )
        for answer in answers
    ]
