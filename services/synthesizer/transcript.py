"""The transcript of a job: its rounds in a topic, each decided once, for every worker.

A round is appended and read back: the first record of it in the log holds, whoever wrote it. So a
worker that starts again replays what is there and draws nothing twice, and two workers on one job
go on from the same rounds: the one that comes second drops what it drew.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_dp.log.base import Log, Record, Stored, Unavailable
from stream_dp.log.message import MAX_PART
from stream_dp.privacy.noise import system_entropy

from ..jobs.records import following
from ..topics import TRANSCRIPTS

_CHUNK = "stream-dp-chunk"  # WRITER/I/N: the i-th of n pieces that one writer wrote of a round


class LogTranscript:
    """See `stream_dp.batch.base.FitTranscript`. at: called with every step's name."""

    def __init__(self, log: Log, job: str, at: Callable[[str], None] = lambda name: None) -> None:
        self._log, self._job, self._at = log, job, at
        self._position = dict(log.describe(TRANSCRIPTS).first)
        self._decided: dict[int, bytes] = {}
        self._pieces: dict[tuple[int, str], list[bytes]] = {}

    def rounds(self) -> list[bytes]:
        self._read()
        found: list[bytes] = []
        while len(found) in self._decided:
            found.append(self._decided[len(found)])
        return found

    def record(self, number: int, data: bytes) -> bytes:
        held = self.rounds()
        if number < len(held):
            return held[number]
        if number > len(held):
            raise ValueError("a round is recorded before the one that it follows")
        writer = system_entropy(8).hex()
        pieces = [data[i : i + MAX_PART] for i in range(0, max(len(data), 1), MAX_PART)]
        self._at("round")
        self._log.append(
            Record(
                TRANSCRIPTS,
                piece,
                f"{self._job}/{number}".encode(),
                ((_CHUNK, f"{writer}/{i}/{len(pieces)}".encode()),),
                0,
            )
            for i, piece in enumerate(pieces)
        )
        self._at("recorded")
        self._read()
        if number not in self._decided:
            raise Unavailable("transcripts: a round that was appended is not there; start again")
        return self._decided[number]

    def _read(self) -> None:
        for record in following(self._log, TRANSCRIPTS, self._position):
            self._take(record)

    def _take(self, record: Stored) -> None:
        job, _, number = (record.key or b"").decode("utf-8", "replace").rpartition("/")
        chunk = record.header(_CHUNK).decode("utf-8", "replace").split("/")
        if job != self._job or len(chunk) != 3 or not (number + chunk[2]).isdecimal():
            return
        round_, (writer, place, count) = int(number), chunk
        pieces = self._pieces.setdefault((round_, writer), [])
        if round_ in self._decided or place != str(len(pieces)):
            return
        pieces.append(record.value or b"")
        if len(pieces) == int(count):
            # Complete before any other is: the order of the log decides.
            self._decided[round_] = b"".join(pieces)
            self._pieces = {k: v for k, v in self._pieces.items() if k[0] != round_}
