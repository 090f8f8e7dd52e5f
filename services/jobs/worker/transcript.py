"""The transcript of a job: its rounds in a topic, each decided once for all workers.

A worker appends a round and reads the topic back. The first complete record of a round counts,
whichever worker wrote it; a worker that comes second discards what it drew. So a worker that
restarts replays the recorded rounds and draws none of them again, and two workers on one job
continue from the same rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_dp.log.log import Log, Record, Stored, Unavailable
from stream_dp.log.message import MAX_PART
from stream_dp.privacy.noise import system_entropy
from stream_dp.study.topics import TRANSCRIPTS

from ...intake.following import following

_CHUNK = "stream-dp-chunk"  # WRITER/I/N: piece i of the n pieces of one writer's round


class LogTranscript:
    """See `stream_dp.batch.synthesizer.FitTranscript`. at: called with every step's name."""

    def __init__(self, log: Log, job: str, at: Callable[[str], None] = lambda name: None) -> None:
        self._log, self._job, self._at = log, job, at
        self._position = dict(log.describe(TRANSCRIPTS).first)
        self._decided: dict[int, bytes] = {}
        self._pieces: dict[tuple[int, str], list[bytes]] = {}

    def rounds(self) -> list[bytes]:
        self._read()
        return self.decided()

    def decided(self) -> list[bytes]:
        """The decided rounds in the records that are read, from round 0 on."""
        rounds: list[bytes] = []
        while len(rounds) in self._decided:
            rounds.append(self._decided[len(rounds)])
        return rounds

    def record(self, number: int, data: bytes) -> bytes:
        rounds = self.rounds()
        if number < len(rounds):
            return rounds[number]
        if number > len(rounds):
            raise ValueError("a round is recorded before the one that it follows")
        writer = system_entropy(8).hex()
        pieces = [data[i : i + MAX_PART] for i in range(0, max(len(data), 1), MAX_PART)]
        self._at("round")
        self._log.append(
            Record(
                topic=TRANSCRIPTS,
                value=piece,
                key=f"{self._job}/{number}".encode(),
                headers=((_CHUNK, f"{writer}/{i}/{len(pieces)}".encode()),),
                partition=0,
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
            self.fold(record)

    def fold(self, record: Stored) -> None:
        """Adds a piece, and decides a complete round."""
        job, _, number = (record.key or b"").decode("utf-8", "replace").rpartition("/")
        chunk = record.header(_CHUNK).decode("utf-8", "replace").split("/")
        if job != self._job or len(chunk) != 3 or not (number + chunk[2]).isdecimal():
            return
        round_, (writer, index, count) = int(number), chunk
        pieces = self._pieces.setdefault((round_, writer), [])
        if round_ in self._decided or index != str(len(pieces)):
            return
        pieces.append(record.value or b"")
        if len(pieces) == int(count):
            # The first writer whose pieces are complete, by the order of the log.
            self._decided[round_] = b"".join(pieces)
            self._pieces = {k: v for k, v in self._pieces.items() if k[0] != round_}


def recorded_rounds(log: Log, jobs: Sequence[str]) -> dict[str, list[bytes]]:
    """By job, the decided rounds of its transcript. Reads the topic once."""
    transcripts = {job: LogTranscript(log, job) for job in jobs}
    for record in following(log, TRANSCRIPTS, dict(log.describe(TRANSCRIPTS).first)):
        job = (record.key or b"").decode("utf-8", "replace").rpartition("/")[0]
        if job in transcripts:
            transcripts[job].fold(record)
    return {job: transcript.decided() for job, transcript in transcripts.items()}
