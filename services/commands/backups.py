"""`stream-dp backup` and `stream-dp restore`: a consistent copy of a study. CONFIDENTIAL."""

from __future__ import annotations

import argparse

from ..process.command_output import Output
from ..storage.deployment import Deployment
from ..storage.file_stores import file_store
from ..storage.study_backup import back_up
from ..storage.study_restore import restore


def back_up_study(options: argparse.Namespace) -> Output:
    backup = back_up(Deployment.load(options.study), file_store(options.place))
    manifest = backup.manifest
    data = {
        "confidential": True,
        "study": manifest.study,
        "place": options.place,
        "entries": backup.entries,
        "published": backup.published,
        "waiting": manifest.waiting,
        "head": manifest.head or None,
        "files": backup.written,
        "bytes": backup.size,
    }
    text = [
        "CONFIDENTIAL: as the reports are",
        f"backup of {manifest.study} in {options.place}: {backup.entries} journal entries,"
        f" {backup.published} public messages; {backup.written} new files with {backup.size} bytes",
        "keys are not in it: keep those of run.signing and run.encryption apart",
    ]
    if manifest.head:
        text.append(f"head {manifest.head}")
    return Output(data, "\n".join(text))


def restore_study(options: argparse.Namespace) -> Output:
    restored = restore(options.study, file_store(options.place), options.place, options.head)
    data = {
        "confidential": True,
        "study": restored.manifest.study,
        "published": restored.published,
        "waiting": restored.waiting,
        "public_restored": restored.public,
        "head": restored.head or None,
        "lines": restored.lines,
    }
    text = [f"restored {restored.manifest.study}", *restored.lines]
    if restored.head:
        text.append(f"head {restored.head}")
    return Output(data, "\n".join(text))
