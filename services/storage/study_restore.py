"""Restores a study from a backup, into SQLite logs with the same records at the same positions.

A restored study may continue only if nothing was published after the backup. The noise of later
releases is lost with the log that had drawn it, and must never be drawn again. So the existing
public log, or the last hash that was kept elsewhere, is compared with the backup first.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log import address
from stream_dp.log.log import Missing
from stream_dp.log.message import read_chain
from stream_dp.log.owned_files import Taken, mark_path, read_mark, role_lock, sync_folder
from stream_dp.study.topics import RELEASES

from . import backup_manifest, journal_checks
from .backup_manifest import LOG_DRAFT, MANIFEST, PUBLIC_DRAFT, Manifest, write_drafts
from .deployment import Deployment
from .file_stores import FileStore
from .journal import Entry
from .restored_logs import ROLE, check_marked, check_snapshots


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    public: whether the public log was restored; None for a public log on a cluster.
    published: the number of public messages.
    waiting: the number of messages that `run` must still publish.
    lines: advice for the operator.
    """

    manifest: Manifest
    head: str
    public: bool | None
    published: int
    waiting: int
    lines: list[str]


def restore(study_file: Path, store: FileStore, location: str, head: str | None) -> Restored:
    """Restores the missing files of a study; existing files are not overwritten.

    study_file: written from the backup if it is missing.
    location: the location of the backup, for messages.
    head: the last hash of the public log that was kept elsewhere.

    Raises UserError, Inconsistent, LogError, OSError.
    """
    _check_order(study_file, location)
    if Path(location).is_dir() and store.size(MANIFEST) is None:
        raise backup_manifest.missing_backup(location)
    store.check()
    manifest = backup_manifest.read_manifest(store)
    if manifest is None:
        raise backup_manifest.missing_backup(location)
    is_new_file = not study_file.exists()
    if is_new_file:
        _write_new(study_file, backup_manifest.read_file(store, manifest.study_file))
    try:
        restored = _restore(Deployment.load(study_file), store, manifest, head)
    except BaseException:
        if is_new_file:
            study_file.unlink()
        raise
    if is_new_file:
        restored.lines.insert(0, f"study file: written to {study_file}")
    return restored


def _check_order(study_file: Path, location: str) -> None:
    """Raises UserError for a folder as the study file, or a file as the location of the backup."""
    order = "name the study file first, then the backup"
    if study_file.is_dir():
        raise UserError(f"{study_file}: is a folder and no study file; {order}")
    if Path(location).is_file():
        raise UserError(f"{location}: is a file and no backup; {order}")


def _restore(
    deployment: Deployment, store: FileStore, manifest: Manifest, head: str | None
) -> Restored:
    """Restores the logs and snapshots, as the only releaser. Raises as `restore`."""
    target = _target(deployment)
    with ExitStack() as stack:
        try:
            stack.enter_context(role_lock(target.with_name(f"{target.name}.{ROLE}.lock")))
            folder = stack.enter_context(TemporaryDirectory(dir=target.parent, prefix=".restore-"))
        except Taken:
            raise UserError(
                f"{target}: another process is its {ROLE}; stop that one first"
            ) from None
        except OSError as error:
            raise write_error(target.parent, error) from None
        entries, copied = write_drafts(deployment, manifest, store, Path(folder))
        present = _present_public(deployment)
        _check_present(entries, present, manifest)
        check_marked([e.message.hash for e in entries], read_mark(mark_path(target, ROLE)))
        check_snapshots(entries, deployment.snapshots)
        # A public log that is behind the backup's was itself restored, and shows nothing.
        newest = len(present) >= max(1, len(copied))
        _check_head(entries, newest, head, deployment)
        _restore_snapshots(deployment, manifest, store, entries)
        restored = _restore_public(deployment, Path(folder) / PUBLIC_DRAFT, present)
        _link_draft(Path(folder) / LOG_DRAFT, target)
    published = present or (copied if restored else [])
    decided = [digest for entry in entries for digest in entry.published]
    waiting = len(decided) - len(published)
    return Restored(
        manifest=manifest,
        head=published[-1] if published else "",
        public=restored,
        published=len(published),
        waiting=waiting,
        lines=_outcome(manifest, newest, waiting, deployment),
    )


def _write_new(path: Path, data: bytes) -> None:
    """Writes a new file, whole or not at all, and durable on return."""
    try:
        with TemporaryDirectory(dir=path.parent, prefix=".restore-") as folder:
            draft = Path(folder) / "file"
            draft.touch(0o600)
            draft.write_bytes(data)
            _link_draft(draft, path)
    except OSError as error:
        raise write_error(path, error) from None


def _target(deployment: Deployment) -> Path:
    """The path for the restored confidential log. Raises UserError if the file exists."""
    name, prefix = address(deployment.run.log)
    if prefix is not None:
        raise UserError(
            f"{deployment.path}: run.log: a backup cannot be restored into Kafka: new topics give"
            " records other positions, and the journal is bound to those of the old ones; write"
            ' log = "sqlite:FILE", and the study goes on in that file'
        )
    target = deployment.base / name
    if os.path.lexists(target):
        raise UserError(
            f"{target}: is there already, and nothing is written over; if it is lost or damaged,"
            " move it away first and never start it again"
        )
    return target


def _present_public(deployment: Deployment) -> list[str]:
    """The hashes of an existing public log; empty without a public log."""
    try:
        with closing(deployment.public(readonly=True)) as log:
            return [message.hash for message in read_chain(log, RELEASES, "public log")]
    except Missing:
        return []


def _check_present(entries: list[Entry], present: list[str], manifest: Manifest) -> None:
    """Raises Inconsistent if messages were published after the backup."""
    decided = [digest for entry in entries for digest in entry.published]
    if len(present) > len(decided) and present[: len(decided)] == decided:
        raise Inconsistent(
            f"public log: it is ahead of the backup of {_moment(manifest)}: its last"
            f" {len(present) - len(decided)} messages were published later, and their noise must"
            " not be drawn again; restore a newer backup or bring back the original log; if both"
            " are lost the study ends with what is published: begin a new one with new logs"
        )
    journal_checks.check_public(entries, present)


def _check_head(
    entries: list[Entry], newest: bool, head: str | None, deployment: Deployment
) -> None:
    """Raises Inconsistent unless the backup's journal has decided the kept hash."""
    if head is None:
        if not newest:
            raise UserError(
                f"{deployment.run.public}: the public log is not there or older than the backup, so"
                " nothing shows what was published after it: give the last hash that was kept"
                " elsewhere with --head HASH"
            )
        return
    if not any(head in entry.published for entry in entries):
        raise Inconsistent(
            "backup: the hash that was kept elsewhere is not in its journal: something was"
            " published after the backup, and its noise must not be drawn again; restore a newer"
            " backup; if all are lost the study ends with what is published"
        )


def _restore_snapshots(
    deployment: Deployment, manifest: Manifest, store: FileStore, entries: list[Entry]
) -> None:
    """Restores the snapshots that are missing."""
    snapshots = deployment.snapshots.of(entries[0].message.hash[:12])
    snapshots.prepare()
    for copy in manifest.snapshots:
        if not snapshots.holds(copy.name):
            snapshots.as_stored().restore(copy.name, backup_manifest.read_file(store, copy.file))


def _restore_public(deployment: Deployment, draft: Path, present: list[str]) -> bool | None:
    """Links the draft unless a public log exists; returns whether linked, None on a cluster."""
    name, prefix = address(deployment.run.public)
    if prefix is not None:
        return None
    if present:
        return False
    _link_draft(draft, deployment.base / name)
    return True


def _link_draft(draft: Path, target: Path) -> None:
    """Links a complete draft to its final name, unless taken. Raises UserError, OSError."""
    try:
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.link(draft, target)
        sync_folder(target.parent)
    except OSError as error:
        raise write_error(target, error) from None


def _outcome(manifest: Manifest, newest: bool, waiting: int, deployment: Deployment) -> list[str]:
    """Lines for the operator about losses and next steps."""
    lines = []
    if newest:
        lines.append("nothing that was decided is lost: the public log is not ahead of the backup")
    else:
        lines.append("nothing that was published up to the hash given is lost")
    if waiting:
        lines.append(f"{waiting} messages are decided and not public: run publishes them")
    lines.append(f"reports sent after {_moment(manifest)} are not in the backup: send them again")
    if manifest.signer is not None or manifest.log.sealed:
        lines.append("keys are in no backup: keep those of run.signing and run.encryption apart")
    file = deployment.path
    lines.append(f"if the original never runs again, once, by hand: stream-dp run {file} --moved")
    return lines


def _moment(manifest: Manifest) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(manifest.made, UTC).isoformat(timespec="seconds")
    return "the backup"
