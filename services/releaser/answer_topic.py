"""The public topic of answers: each publication's answers, in one transaction, once.

The answers follow from published bytes alone, as do the weights of answers of least error: a thread
computes them in the background after a publication. So a crash loses nothing, and nothing waits for
them. They are decided once, in an entry of the journal, because another machine may compute other
last digits. If a later period is published first, weights that are not decided yet are left out,
and those of the later period are computed.

A publication's answers are unbiased, because the weights of answers of least error come later. The
message with a panel's weights brings the answers of its last period again, under the same keys. The
topic's last record names the last message whose answers are there. A releaser that starts writes
the answers of all later messages.

A record is JSON with its schema, as Kafka Connect's JsonConverter reads it, or Avro. A record of
Avro is a zero byte, the schema's id in a registry (4 bytes, the most significant first), and the
answer in Avro's binary encoding. The converters of registries read this form.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, get_args, get_type_hints

from stream_dp.answers.error_weights import MOST_WORK, missing_weights
from stream_dp.answers.flat_answers import FlatAnswer, flat_answers, weighted_answers
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.log.log import Log, Record, Writer
from stream_dp.log.message import (
    MANIFEST,
    PART,
    Message,
    canonical,
    manifest_message,
    parts_in_records,
    read_parts,
)
from stream_dp.log.signing import SigningKey
from stream_dp.release.public_reader import READERS, AnyCertificate, checked_release, keep_all
from stream_dp.release.published_panels import WEIGHTS_TYPE, Weights, WeightsStatement
from stream_dp.study import Study
from stream_dp.study.topics import ESTIMATES, RELEASES

from ..process.events import Event, Tell
from . import decision
from .releaser_facts import Context

if TYPE_CHECKING:
    from .open_period import Recovered


KEY = ("study", "release", "period", "region", "query", "measure")  # which answer it is
MESSAGE = "stream-dp-message"  # the header with the hash of the message
_CONNECT = {str: "string", float: "double", bool: "boolean"}
_JSON = {str: "string", float: "number", bool: "boolean"}


@cache
def _fields() -> tuple[tuple[str, type, bool], ...]:
    """The name, the type and whether None is allowed, of every field of an answer."""
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
    """An answer in Avro behind the schema's number, as schema registries have records written."""
    parts = [b"\0", struct.pack(">I", schema)]
    for (_, kind, optional), value in zip(_fields(), answer, strict=True):
        if optional:  # the index of the type in the union: 0 or 1, in zigzag
            parts.append(b"\0" if value is None else b"\2")
        if value is not None:
            parts.append(_ENCODE[kind](value))
    return b"".join(parts)


def _text(value: str) -> bytes:
    """A text in Avro: its length as a zigzag variable-length number, and UTF-8."""
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
    """A record per answer.

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


_AT_ONCE = 1000  # records of a read
_TYPES = {reader.message_type for reader in READERS.values()}


def _of_panels(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Whether answers about panels need a table."""
    return study.batch(certificate.release) is None and table in ("measurements", "estimates")


@dataclass
class AnswerTopic:
    """Writes the answers of publications.

    public, writer: the public log and its only writer.
    schema: the id of the answers' Avro schema in a registry; None for records of JSON.
    """

    study: Study
    public: Log
    writer: Writer
    schema: int | None = None
    _panels: PublicLog | None = field(default=None, init=False)  # read so far, for weights

    def catch_up(self, chain: Sequence[Message]) -> None:
        """Writes the answers of the messages after the last one with answers in the topic.

        chain: the public log's messages, without their parts.
        """
        last = self._last()
        hashes = [message.hash for message in chain]
        for message in chain[hashes.index(last) + 1 if last in hashes else 0 :]:
            kind = message.head.get("type")
            if kind == WEIGHTS_TYPE:
                self._write_weighted(message)
            elif kind in _TYPES:
                self._write(read_parts(self.public, RELEASES, message, "public log"))

    def add(self, records: Sequence[Record]) -> None:
        """Writes the answers of the messages among published records."""
        parts = list[Record]()
        for record in records:
            if dict(record.headers)[PART] != MANIFEST:
                parts.append(record)
                continue
            message = manifest_message(record.value or b"")
            kind = message.head.get("type")
            if kind == WEIGHTS_TYPE:
                self._write_weighted(message)
            elif kind in _TYPES:
                self._write(replace(message, parts=parts_in_records(parts)))
            parts = []

    def _write(self, message: Message) -> None:
        """Writes the answers of one publication in one transaction."""
        published = checked_release(self.study, message, keep_all)
        self._commit(flat_answers(self.study, published), published.certificate.number)

    def _write_weighted(self, message: Message) -> None:
        """Writes the answers that weights bring in one transaction."""
        head = WeightsStatement.model_validate(message.head)
        if self._panels is None:
            self._panels = PublicLog(self.public, _of_panels, until=message.hash)
        else:
            self._panels.extend(self.public, message.hash)
        self._commit(weighted_answers(self._panels, head.release, message.hash), head.number)

    def _commit(self, answers: Sequence[FlatAnswer], number: int) -> None:
        """number: of the period that was published last."""
        if answers:
            time = self.study.periods.release_time(number)
            self.writer.commit(answer_records(answers, time, self.schema))

    def _last(self) -> str:
        """The hash of the last publication with answers in the topic; empty without one."""
        position, last = dict(self.public.describe(ESTIMATES).first), ""
        while True:
            batch = self.public.read(ESTIMATES, position, _AT_ONCE, 0)
            if batch.records:
                last = batch.records[-1].header(MESSAGE).decode("ascii", "replace")
            position = batch.next
            if batch.at_end:
                return last


def _weights_of_panels(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Whether weights need a table."""
    return study.batch(certificate.release) is None and table != "estimates"


@dataclass
class AnswerWeights:
    """Computes the weights of the last publication while the releaser waits.

    public: the public log.
    wanted: whether weights are published.
    number: the last period whose weights are decided, are being computed, or cannot be computed.
    """

    study: Study
    public: Log
    tell: Tell
    wanted: bool
    number: int
    _log: PublicLog | None = field(default=None, init=False)  # read so far
    _thread: threading.Thread | None = field(default=None, init=False)
    _computed: Sequence[Weights] = field(default=(), init=False)
    _fault: str = field(default="", init=False)

    @property
    def busy(self) -> bool:
        """Whether weights are computed, or are there and not decided."""
        return self._thread is not None

    def begin(self, number: int) -> None:
        """Begins with the weights of the last published period, if none were begun for it."""
        if not self.wanted or number <= self.number or self.busy:
            return
        self.number, self._computed, self._fault = number, (), ""
        rows = [r.rows or self.study.size or 0 for r in self.study.releases]
        if not rows or max(rows) * number > MOST_WORK:
            self._log = None
            return
        if self._log is None:
            self._log = PublicLog(self.public, _weights_of_panels)
        else:
            self._log.extend(self.public)
        self._thread = threading.Thread(target=self._compute, args=(self._log,), daemon=True)
        self._thread.start()

    def _compute(self, log: PublicLog) -> None:
        try:
            self._computed = list(missing_weights(log))
        except (UserError, ArithmeticError, ValueError, MemoryError) as error:
            self._fault = f"answers stay unbiased, because no weights could be computed: {error}"

    def finished(self, last: int | None) -> Sequence[Weights]:
        """The computed weights, once. Empty before, and if the releases of `last` came later."""
        if self._thread is None or self._thread.is_alive():
            return ()
        self._thread = None
        if self._fault:
            self.tell(Event("weights-failed", self._fault))
        return self._computed if self.number == last else ()


def publish_weights(run: Recovered, context: Context, signer: SigningKey | None) -> None:
    """Decides and publishes the weights of answers once they are computed."""
    weights, journal = run.weights, run.journal
    if not (computed := weights.finished(context.facts.released)):
        return
    journal.require_decidable()
    end = decision.decide_weights(weights.study, computed, journal.end, weights.number, signer)
    journal.commit(end, context.at, "weights-")
    run.publisher.publish(end.entry, until_idle=False)
    journal.renew()
