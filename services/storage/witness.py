"""The witness: a log elsewhere that has seen how far the journal is.

Whoever restores the journal and the public log together, both older, cannot be seen by comparing
the two. The witness can: it is advanced after every decision, before anything of the decision is
public, and it never goes back. So a draw of which anything was published is never drawn again. It
is compared before every draw. A crash between a decision and the witness is no fault: the journal
is ahead then, and nothing of the decision was public. An empty witness says nothing, so it is
refused if anything of a study is left: a draw in the journal, a public message or a snapshot.

A witness can be an object in a bucket, too. The object has the last sight alone and is replaced
under a precondition. It is `OFFSET SIGHT`: the number of sights before, and the sight as a
witness's log has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import (
    Batch,
    Fenced,
    Log,
    LogError,
    Missing,
    Positions,
    Record,
    Stored,
    Unavailable,
    UnknownCommit,
)
from stream_dp.log.message import Message

from .file_stores import UrlStore
from .journal import Entry, has_begun, has_drawn

if TYPE_CHECKING:
    from .snapshots import Snapshots

WITNESS = "witness"  # the topic, and the role of its writer
_AT_ONCE = 1000  # records of one read


class Sight(msgspec.Struct, frozen=True):
    """The witness's record of a journal.

    genesis: the hash of entry 0.
    entries: their number.
    head: the hash of the last one.
    """

    genesis: str
    entries: Annotated[int, msgspec.Meta(ge=1)]
    head: str

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Sight:
        """The record of a journal that has begun."""
        last = entries[-1].message
        return cls(entries[0].message.hash, last.index + 1, last.hash)


class WitnessWriter(Protocol):
    """The part of `log.Writer` for advancing a witness."""

    def commit(self, records: Iterable[Record]) -> None: ...


class WitnessLog(Protocol):
    """The part of `log.Log` for reading a witness."""

    def create(self, topics: Mapping[str, int]) -> None: ...
    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch: ...
    def own(self, name: str, topic: str | None = None) -> AbstractContextManager[WitnessWriter]: ...
    def close(self) -> None: ...


class Witness:
    """A log's records of the journal. sight: the last record, or None."""

    def __init__(self, log: WitnessLog) -> None:
        self._log, self._position = log, 0
        self.sight: Sight | None = None
        self.look()

    def look(self) -> None:
        """Reads new records of the witness. Raises Inconsistent, LogError."""
        at_end = False
        while not at_end:
            try:
                with _faults():
                    batch = self._log.read(WITNESS, {0: self._position}, _AT_ONCE, 0)
            except Missing:
                return
            for record in batch.records:
                try:
                    self.sight = msgspec.json.decode(record.value or b"", type=Sight)
                except msgspec.DecodeError:
                    raise Inconsistent(
                        f"witness: record {record.offset} is damaged; restore the witness"
                    ) from None
            self._position, at_end = batch.next[0], batch.at_end

    def check(self, entries: Sequence[Entry], *, published: bool, new: bool = False) -> None:
        """Raises Inconsistent unless the journal goes on from what the witness has seen.

        entries: of the journal; none before it begins.
        published: whether the public log has messages.
        new: whether the operator states that the witness is new to the study.
        """
        seen = self.sight
        if seen is None:
            if (published or has_drawn(entries)) and not new:
                raise Inconsistent(
                    "witness: it is empty, but the study has releases: it was lost, or is new to"
                    " this study; restore it, or, if no older backup was restored, give"
                    " --new-witness once"
                )
            return
        if entries and entries[0].message.hash != seen.genesis:
            raise Inconsistent(
                "witness: it has seen another journal: it or the confidential log is another"
                " study's; bring back the right one; if the witness is lost, name a new one as"
                " run.witness and give --new-witness once"
            )
        if len(entries) < seen.entries:
            raise Inconsistent(
                f"witness: it has seen {seen.entries} decisions, but the journal has"
                f" {len(entries)}: an older backup was restored; bring back the newer one, for its"
                " noise must not be drawn again"
            )
        if Sight.of(entries[: seen.entries]) != seen:
            raise Inconsistent(
                f"witness: decision {seen.entries - 1} of the journal is not the one that it has"
                " seen: another copy of the logs has gone on; go on with that copy, for its noise"
                " must not be drawn again"
            )

    def check_new(self, snapshots: Snapshots, *, new: bool) -> None:
        """Raises Inconsistent if a journal has been here before one begins.

        snapshots: the study's.
        new: as of `check`.
        """
        self.check([], published=False)
        if self.sight is None and not new and snapshots.of_any_journal():
            raise Inconsistent(
                "witness: it is empty, and so is the journal, but snapshots of a journal are in"
                " the folder of snapshots: a study was here and its logs are lost; restore them,"
                " or, if the snapshots are another study's, give --new-witness once"
            )


class OwnedWitness(Witness):
    """The witness of the releaser's process, the only process to advance the witness."""

    def __init__(self, log: WitnessLog, writer: WitnessWriter) -> None:
        super().__init__(log)
        self._writer = writer

    def advance(self, sight: Sight) -> None:
        """Notes a longer journal; durable on return. Raises LogError."""
        if sight != self.sight:
            with _faults():
                self._writer.commit([Record(WITNESS, msgspec.json.encode(sight), partition=0)])
            self.sight = sight

    def advance_to(self, entry: Message) -> None:
        """Notes the next entry of the journal. Raises LogError."""
        assert self.sight is not None  # `advance` comes first
        self.advance(Sight(self.sight.genesis, entry.index + 1, entry.hash))

    def require_same(self) -> None:
        """Raises Fenced if anybody else has advanced the witness."""
        last_sight = self.sight
        self.look()
        if self.sight != last_sight:
            raise Fenced("witness: another process has advanced it; stop that one first")


class NoWitness:
    """The witness of a study without a declared witness. Every check succeeds."""

    def check(self, entries: Sequence[Entry], *, published: bool, new: bool = False) -> None:
        return

    def check_new(self, snapshots: Snapshots, *, new: bool) -> None:
        return

    def advance(self, sight: Sight) -> None:
        return

    def advance_to(self, entry: Message) -> None:
        return

    def require_same(self) -> None:
        return


@contextmanager
def owned_witness(
    log: WitnessLog | None, confidential: Log, snapshots: Snapshots, *, new: bool
) -> Iterator[OwnedWitness | NoWitness]:
    """Takes the role of the witness's writer.

    log: of the witness; None without one.
    confidential: the log of the journal.
    snapshots: the study's.
    new: whether the operator states that the witness is new to the study.

    Raises Inconsistent where a journal has been seen and there is none; LogError.
    """
    if log is None:
        yield NoWitness()
        return
    with ExitStack() as stack:
        with _faults():
            log.create({WITNESS: 1})
            writer = stack.enter_context(log.own(WITNESS, WITNESS))
        witness = OwnedWitness(log, writer)
        if not has_begun(confidential):
            witness.check_new(snapshots, new=new)
        yield witness


def check_witness(log: WitnessLog, entries: Sequence[Entry], *, published: bool) -> list[str]:
    """Compares a journal with its witness; returns lines. Raises Inconsistent, LogError."""
    witness = Witness(log)
    witness.check(entries, published=published)
    seen = 0 if witness.sight is None else witness.sight.entries
    return [f"witness: has seen {seen} decisions of {len(entries)}, the journal's own"]


@contextmanager
def _faults() -> Iterator[None]:
    """Names the witness in errors of its log."""
    try:
        yield
    except Missing:
        raise
    except LogError as error:
        raise type(error)(f"witness: {error}") from None


_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_MOST_BYTES = 1 << 16


class VersionedObject:
    """An object at `s3://bucket/name`, replaced only if it is unchanged since the last read.

    The precondition is S3's: `If-Match` with the version that was read, `If-None-Match: *` if
    nothing was there.

    subject: names it in errors.

    Methods raise UserError if the store refuses, Unavailable if it does not answer.
    """

    def __init__(self, url: str, subject: str) -> None:
        """Raises UserError without the package for s3."""
        self.subject = subject
        self._store = UrlStore(url, subject)
        self._bucket, _, self._key = url.removeprefix("s3://").partition("/")
        self._version: str | None = None

    def read(self) -> bytes | None:
        """The content, or None without an object. Raises UserError for a missing bucket."""
        from fsspec.asyn import sync

        files = self._store.files

        async def got() -> tuple[str, bytes]:
            answer = await files._call_s3("get_object", Bucket=self._bucket, Key=self._key)
            async with answer["Body"] as body:
                return answer["ETag"], await body.read(_MOST_BYTES)

        try:
            with self._store.errors_named():
                self._version, content = sync(files.loop, got)
        except FileNotFoundError as error:
            if _code(error) == "NoSuchBucket":
                raise UserError(f"{self.subject}: there is no such bucket; create it") from None
            self._version = None
            return None
        return bytes(content)

    def replace(self, content: bytes) -> None:
        """Replaces the content of the last read; durable on return. Raises Fenced after a foreign
        change.
        """
        condition = {"IfNoneMatch": "*"} if self._version is None else {"IfMatch": self._version}
        address = {"Bucket": self._bucket, "Key": self._key}
        try:
            with self._store.errors_named():
                try:
                    answer = self._store.files.call_s3(
                        "put_object", **address, Body=content, **condition
                    )
                except OSError as error:
                    if _code(error) in _CHANGED:
                        raise Fenced("another process has advanced it; stop that one") from None
                    raise
        except FileNotFoundError:  # removed since it was read
            raise Fenced("it was removed; restore it") from None
        self._version = answer["ETag"]


def _code(error: BaseException) -> str:
    """The store's code of an error."""
    response: Any = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


class WitnessObject:
    """See `witness.WitnessLog`. A second process that advances the witness fences the first
    process.
    """

    def __init__(self, url: str) -> None:
        """Raises UserError without the package for the store."""
        self._object, self._offset = VersionedObject(url, f"run.witness: {url}"), -1

    def create(self, topics: Mapping[str, int]) -> None:
        """The bucket is the operator's; the object comes with the first sight."""

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        """The object's content as the records of a log: the last sight of the logs, or nothing.

        The object is "OFFSET VALUE". `positions` has the first offset to read of partition 0; the
        batch is empty if the object's offset is below it, and it always ends the log.

        Raises Inconsistent for a removed or damaged object, Unavailable.
        """
        content = self._object.read()
        if content is None:
            if self._offset >= 0:
                raise Inconsistent("witness: its object was removed; restore it")
            return Batch((), dict(positions), True)
        number, _, value = content.partition(b" ")
        if not number.isdigit() or len(number) > 12:
            raise Inconsistent("witness: its object is damaged; restore it")
        self._offset = int(number)
        stored = Stored(0, self._offset, 0, None, value, ())
        records = [stored] if self._offset >= positions[0] else []
        return Batch(records, {0: max(self._offset + 1, positions[0])}, True)

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[WitnessObject]:
        """Any reader of the last sight may advance the witness."""
        yield self

    def commit(self, records: Iterable[Record]) -> None:
        """Replaces the sight. Raises Fenced, UnknownCommit."""
        (record,) = records
        try:
            self._object.replace(b"%d %b" % (self._offset + 1, record.value or b""))
        except Unavailable as error:
            raise UnknownCommit(str(error)) from None
        self._offset += 1

    def close(self) -> None:
        """Nothing is kept open."""
