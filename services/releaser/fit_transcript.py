"""The transcript of a job: its rounds in a topic, each decided once for all workers.

A worker takes the job's lease before it draws, by a record in the same topic. In the order of the
log only the rounds of the lease's holder count, until another lease follows. So the winner of two
workers on one job is known before either of them draws, and a faster draw is never preferred. A
worker that restarts replays the recorded rounds and draws none of them again.

A lease lapses by the heartbeats of its holder. A thread of their own writes heartbeats, which no
draw and no fit holds up. So a lease lapses because its holder has ended or cannot be heard, and not
because of what it drew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from stream_dp.log.log import Log, Record, Stored, Unavailable, following
from stream_dp.log.message import MAX_PART, canonical
from stream_dp.privacy.noise import system_entropy
from stream_dp.study.topics import TRANSCRIPTS

from ..process.heartbeats import HEARTBEAT_TIMEOUT, Heartbeat, Heartbeats


@dataclass
class LeaseWatch:
    """The holders of leases, and when each was heard last."""

    log: Log
    _heartbeats: Heartbeats = field(init=False)
    _heard: dict[str, float] = field(default_factory=dict)  # by instance, monotonic seconds

    def __post_init__(self) -> None:
        self._heartbeats = Heartbeats(self.log)

    def lapsed(self, lease: Lease | None) -> bool:
        """Whether a worker may take the next lease.

        A holder of unknown end counts as dead after HEARTBEAT_TIMEOUT seconds without a heartbeat,
        from the first call on.
        """
        if lease is None or lease.released or lease.holder.surely_dead:
            return True
        now, instance = time.monotonic(), lease.holder.instance
        heard = self._heartbeats.refresh()
        self._heard |= dict.fromkeys((beat.instance for beat in heard), now)
        if any(beat.instance == instance and beat.ended is not None for beat in heard):
            return True
        return now - self._heard.setdefault(instance, now) > HEARTBEAT_TIMEOUT


LEASE = "stream-dp-lease"  # the header of these records


class Lease(msgspec.Struct, frozen=True):
    """A record that gives a job to a worker, or ends the worker's lease.

    writer: unique to the worker's lease; of all of its rounds.
    after: the writer of the lease that this record follows; empty for the first one. A record that
        follows another lease than the present one does not count.
    holder: the worker.
    released: whether the record ends the writer's own lease.
    """

    job: str
    writer: str
    after: str
    holder: Heartbeat
    released: bool = False


def lease_record(lease: Lease) -> Record:
    value = canonical(msgspec.to_builtins(lease))
    return Record(TRANSCRIPTS, value, headers=((LEASE, b"1"),), partition=0)


_CHUNK = "stream-dp-chunk"  # WRITER/I/N: piece i of the n pieces of one writer's round


class LeaseLost(Exception):
    """Another worker has the lease of the job: this one may have been thought dead."""


class LogTranscript:
    """See `stream_dp.batch.synthesizer.FitTranscript`. at: called with every step's name."""

    def __init__(self, log: Log, job: str, at: Callable[[str], None] = lambda name: None) -> None:
        self._log, self._job, self._at = log, job, at
        self._writer = system_entropy(8).hex()
        self._position = dict(log.describe(TRANSCRIPTS).first)
        self._lease: Lease | None = None
        self._decided: dict[int, bytes] = {}
        self._pieces: dict[int, list[bytes]] = {}  # of the lease's holder, by round

    def rounds(self) -> list[bytes]:
        self._read()
        return self.decided()

    def decided(self) -> list[bytes]:
        """The decided rounds in the records that are read, from round 0 on."""
        rounds: list[bytes] = []
        while len(rounds) in self._decided:
            rounds.append(self._decided[len(rounds)])
        return rounds

    @property
    def lease(self) -> Lease | None:
        """The present lease in the read records; None before the first lease."""
        return self._lease

    def take_lease(self, holder: Heartbeat) -> bool:
        """Takes the lease after the last read lease. False if another worker came first."""
        last_writer = "" if self._lease is None else self._lease.writer
        self._log.append([lease_record(Lease(self._job, self._writer, last_writer, holder))])
        self._read()
        return self._holds

    def release(self) -> None:
        """Ends the lease, if this is its holder."""
        if self._lease is not None and self._holds:
            ended = msgspec.structs.replace(self._lease, after=self._writer, released=True)
            self._log.append([lease_record(ended)])

    @property
    def _holds(self) -> bool:
        lease = self._lease
        return lease is not None and lease.writer == self._writer and not lease.released

    def record(self, number: int, data: bytes) -> bytes:
        """Records a round. Raises LeaseLost if another worker has the lease."""
        rounds = self.rounds()
        if number < len(rounds):
            return rounds[number]
        if number > len(rounds):
            raise ValueError("a round is recorded before the one that it follows")
        if not self._holds:
            raise LeaseLost
        pieces = [data[i : i + MAX_PART] for i in range(0, max(len(data), 1), MAX_PART)]
        self._at("round")
        self._log.append(
            Record(
                topic=TRANSCRIPTS,
                value=piece,
                key=f"{self._job}/{number}".encode(),
                headers=((_CHUNK, f"{self._writer}/{i}/{len(pieces)}".encode()),),
                partition=0,
            )
            for i, piece in enumerate(pieces)
        )
        self._at("recorded")
        self._read()
        if not self._holds:
            raise LeaseLost
        if number not in self._decided:
            raise Unavailable("transcripts: a round that was appended is not there; start again")
        return self._decided[number]

    def _read(self) -> None:
        for record in following(self._log, TRANSCRIPTS, self._position):
            self.fold(record)

    def fold(self, record: Stored) -> None:
        """Adds a lease, or a piece, and decides a complete round."""
        if record.header(LEASE):
            self._follow(record)
            return
        job, _, number = (record.key or b"").decode("utf-8", "replace").rpartition("/")
        chunk = record.header(_CHUNK).decode("utf-8", "replace").split("/")
        if job != self._job or len(chunk) != 3 or not (number + chunk[2]).isdecimal():
            return
        round_, (writer, index, count) = int(number), chunk
        lease = self._lease
        if lease is None or lease.released or writer != lease.writer or round_ in self._decided:
            return
        pieces = self._pieces.setdefault(round_, [])
        if index != str(len(pieces)):
            return
        pieces.append(record.value or b"")
        if len(pieces) == int(count):
            self._decided[round_] = b"".join(self._pieces.pop(round_))

    def _follow(self, record: Stored) -> None:
        """Takes a lease after the present lease, and drops its unfinished rounds."""
        with suppress(msgspec.MsgspecError):
            lease = msgspec.json.decode(record.value or b"", type=Lease)
            present = "" if self._lease is None else self._lease.writer
            if lease.job == self._job and lease.after == present:
                self._lease = lease
                self._pieces.clear()


def recorded_rounds(log: Log, jobs: Sequence[str]) -> dict[str, list[bytes]]:
    """By job, the decided rounds of its transcript. Reads the topic once."""
    transcripts = {job: LogTranscript(log, job) for job in jobs}
    for record in following(log, TRANSCRIPTS, dict(log.describe(TRANSCRIPTS).first)):
        if record.header(LEASE):
            for transcript in transcripts.values():
                transcript.fold(record)
            continue
        job = (record.key or b"").decode("utf-8", "replace").rpartition("/")[0]
        if job in transcripts:
            transcripts[job].fold(record)
    return {job: transcript.decided() for job, transcript in transcripts.items()}
