"""The public topic of answers: each publication's answers, in one transaction, once.

The answers follow from published bytes alone. The topic's last record names the last publication
whose answers are there. A releaser that starts writes the answers of all later publications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stream_dp.answers.flat_answers import flat_answers
from stream_dp.log.chain import read_parts
from stream_dp.log.log import Log, Record, Writer
from stream_dp.log.message import MANIFEST, PART, Message, manifest_message, parts_in_records
from stream_dp.release.public_reader import READERS, checked_release, keep_all
from stream_dp.study import Study
from stream_dp.study.topics import ESTIMATES, RELEASES

from ..contract.answer_records import MESSAGE, answer_records

_AT_ONCE = 1000  # records of a read
_TYPES = {reader.message_type for reader in READERS.values()}


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

    def catch_up(self, chain: Sequence[Message]) -> None:
        """Writes the answers of the publications after the last one with answers in the topic.

        chain: the public log's messages, without their parts.
        """
        last = self._last()
        hashes = [message.hash for message in chain]
        for message in chain[hashes.index(last) + 1 if last in hashes else 0 :]:
            if message.head.get("type") in _TYPES:
                self._write(read_parts(self.public, RELEASES, message, "public log"))

    def add(self, records: Sequence[Record]) -> None:
        """Writes the answers of the publications among published records."""
        parts = list[Record]()
        for record in records:
            if dict(record.headers)[PART] != MANIFEST:
                parts.append(record)
                continue
            message = manifest_message(record.value or b"")
            if message.head.get("type") in _TYPES:
                self._write(replace(message, parts=parts_in_records(parts)))
            parts = []

    def _write(self, message: Message) -> None:
        published = checked_release(self.study, message, keep_all)
        answers = flat_answers(self.study, published)
        time = self.study.periods.release_time(published.certificate.number)
        if answers:
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
