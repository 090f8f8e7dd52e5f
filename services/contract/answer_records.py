"""Answers as records: JSON with its schema, as Kafka Connect's JsonConverter reads it, or Avro.

A record of Avro is a zero byte, the schema's id in a registry (4 bytes, the most significant
first), and the answer in Avro's binary encoding. The converters of registries read this form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cache
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


@cache
def _fields() -> tuple[tuple[str, type, bool], ...]:
    """The name, the type and whether None is allowed, of each field of an answer."""
    fields = []
    for name, hint in get_type_hints(FlatAnswer).items():
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
        fields.append((name, kinds[0], type(None) in get_args(hint)))
    return tuple(fields)


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


def answer_avro() -> Json:
    """The Avro schema of an answer."""
    return {
        "type": "record",
        "name": "Estimate",
        "namespace": "stream_dp",
        "doc": "An answer of a publication.",
        "fields": [
            {"name": name, "type": ["null", _CONNECT[kind]], "default": None}
            if optional
            else {"name": name, "type": _CONNECT[kind]}
            for name, kind, optional in _fields()
        ],
    }


def _avro(answer: FlatAnswer, schema: int) -> bytes:
    parts = [b"\0", struct.pack(">I", schema)]
    for (_, kind, optional), value in zip(_fields(), answer, strict=True):
        if optional:  # the index of the type in the union: 0 or 1, in zigzag
            parts.append(b"\0" if value is None else b"\2")
        if value is not None:
            parts.append(_ENCODE[kind](value))
    return b"".join(parts)


def _text(value: str) -> bytes:
    data = value.encode()
    number, length = 2 * len(data), bytearray()
    while number > 0x7F:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*length, number]) + data


_ENCODE: dict[type, Callable[..., bytes]] = {
    str: _text,
    float: lambda value: struct.pack("<d", value),
    bool: lambda value: bytes([value]),
}


def answer_records(
    answers: Iterable[FlatAnswer], time: float | None, schema: int | None = None
) -> list[Record]:
    """A record for each answer.

    time: the publication's scheduled time in Unix seconds.
    schema: the id of `answer_avro` in a registry, for records of Avro; None for JSON.
    """
    stamp = 0 if time is None else max(0, round(time * 1000))
    return [
        Record(
            ESTIMATES,
            canonical({"schema": CONNECT_SCHEMA, "payload": answer._asdict()})
            if schema is None
            else _avro(answer, schema),
            canonical([getattr(answer, name) for name in KEY]),
            headers=(
                ("content-type", b"application/json" if schema is None else b"application/avro"),
                (MESSAGE, answer.message.encode()),
            ),
            partition=0,
            time=stamp,
        )
        for answer in answers
    ]
