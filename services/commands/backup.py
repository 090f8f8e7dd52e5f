"""`stream-dp backup`: a consistent copy of a study while its service runs. CONFIDENTIAL."""

from __future__ import annotations

import argparse

from ..backups.backup import back_up
from ..backups.store import backup_store
from ..deployment import Deployment
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    words = "a folder for this study's backup alone, or an fsspec URL; what is there already is"
    words += " not copied again"
    parser.add_argument("place", metavar="DIR|URL", help=words)


def run(options: argparse.Namespace) -> Output:
    made = back_up(Deployment.load(options.study), backup_store(options.place))
    manifest = made.manifest
    data = {
        "confidential": True,
        "study": manifest.study,
        "place": options.place,
        "entries": made.entries,
        "published": made.published,
        "waiting": manifest.waiting,
        "head": manifest.head or None,
        "files": made.written,
        "bytes": made.size,
    }
    text = [
        "CONFIDENTIAL: as the reports are",
        f"backup of {manifest.study} in {options.place}: {made.entries} journal entries,"
        f" {made.published} public messages; {made.written} new files with {made.size} bytes",
        "keys are not in it: keep those of run.signing and run.encryption apart",
    ]
    if manifest.head:
        text.append(f"head {manifest.head}")
    return Output(data, "\n".join(text))
