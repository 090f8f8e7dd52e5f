"""The logs of a backup, written as drafts and checked: what `restore` puts in their place.

`backup` does the same with its new backup before it counts, so that no backup is left that
`restore` would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log.message import read_messages
from stream_dp.log.sqlite import SqliteLog
from stream_dp.log.sqlite_file import Row, write_rows
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS

from . import backup_manifest, journal, journal_checks
from .backup_manifest import LogCopy, Manifest
from .deployment import Deployment
from .file_stores import FileStore
from .journal import Entry

LOG_DRAFT, PUBLIC_DRAFT = "log", "public"  # the names of the drafts in their folder


def write_drafts(
    deployment: Deployment,
    manifest: Manifest,
    store: FileStore,
    folder: Path,
    *,
    whole: bool = True,
) -> tuple[list[Entry], list[str]]:
    """Writes drafts of both logs; returns the journal and the hashes of the public messages.

    Every file of the backup is read.

    folder: for the drafts.
    whole: whether the drafts become the logs. Otherwise the draft of the confidential log has the
        records of the journal alone; those of other topics are read and checked all the same.

    Raises Inconsistent for a backup that cannot be restored, UserError, LogError, OSError.
    """
    for file in (manifest.study_file, *(copy.file for copy in manifest.snapshots)):
        backup_manifest.read_file(store, file)
    entries = _journal(deployment, manifest, store, folder / LOG_DRAFT, whole=whole)
    published = _public(manifest, store, folder / PUBLIC_DRAFT)
    journal_checks.check_public(entries, published)
    owner = f"{entries[0].message.hash[:12]}-"
    if not all(copy.name.startswith(owner) for copy in manifest.snapshots):
        raise Inconsistent("backup: it has snapshots of another journal; use another")
    return entries, published


def require_restorable(deployment: Deployment, manifest: Manifest, store: FileStore) -> None:
    """Raises UserError or Inconsistent if `restore` would refuse a backup.

    Drafts go to the folder for temporary files, and do not stay.
    """
    try:
        with TemporaryDirectory(prefix=".backup-") as folder:
            write_drafts(deployment, manifest, store, Path(folder), whole=False)
    except UserError as error:
        refused = "backup: not completed, because restore would refuse it"
        advice = "if a file of the backup is at fault, name a new place"
        raise type(error)(f"{refused}: {line}; {advice}" for line in error.lines) from None
    except OSError as error:
        raise write_error(gettempdir(), error) from None


def _journal(
    deployment: Deployment, manifest: Manifest, store: FileStore, draft: Path, *, whole: bool
) -> list[Entry]:
    """Writes the draft of the confidential log; returns the checked entries of the journal."""
    _write_log(manifest.log, store, draft, public=False, whole=whole)
    with closing(SqliteLog(draft, readonly=True, keys=deployment.keys)) as log:
        entries = journal.read_heads(log)
        for entry in entries:
            entry.read()
        if not entries or entries[-1].message.hash != manifest.journal:
            raise Inconsistent("backup: its journal does not end as its manifest says; use another")
        plan = journal_checks.begun_plan(entries, deployment.study)
        journal_checks.check_journal(entries, plan, log.describe(REPORTS))
    return entries


def _public(manifest: Manifest, store: FileStore, draft: Path) -> list[str]:
    """Writes the draft of the public log; returns the checked hashes of the messages."""
    _write_log(manifest.public, store, draft, public=True, whole=True)
    with closing(SqliteLog(draft, public=True, readonly=True)) as log:
        hashes = [message.hash for message in read_messages(log, RELEASES, "public log")]
    if (hashes[-1] if hashes else "") != manifest.head:
        raise Inconsistent("backup: its public log does not end as its manifest says; use another")
    return hashes


def _write_log(copy: LogCopy, store: FileStore, path: Path, *, public: bool, whole: bool) -> None:
    """Writes the SQLite file of a copied log. whole: see `write_drafts`."""

    def rows() -> Iterator[tuple[str, int, Row]]:
        for topic in copy.topics:
            for partition, segments in enumerate(topic.partitions):
                for segment in segments:
                    read = backup_manifest.segment_rows(store, segment)
                    if whole or topic.name == JOURNAL:
                        yield from ((topic.name, partition, row) for row in read)

    write_rows(
        path,
        public=public,
        identity=copy.identity,
        sealed=copy.sealed,
        topics={topic.name: len(topic.partitions) for topic in copy.topics},
        rows=rows(),
        ends=[
            (topic.name, partition, segments[-1].next)
            for topic in copy.topics
            for partition, segments in enumerate(topic.partitions)
            if segments
        ],
    )
