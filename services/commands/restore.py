"""`stream-dp restore`: a study from its backup, if no noise could be drawn again. CONFIDENTIAL."""

from __future__ import annotations

import argparse

from ..backups.restore import restore
from ..backups.store import backup_store
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("place", metavar="DIR|URL", help="where `stream-dp backup` wrote it")
    words = "the last hash of the public log that was kept elsewhere; needed where that log is lost"
    parser.add_argument("--head", metavar="HASH", help=words)


def run(options: argparse.Namespace) -> Output:
    done = restore(options.study, backup_store(options.place), options.place, options.head)
    data = {
        "confidential": True,
        "study": done.manifest.study,
        "published": done.published,
        "waiting": done.waiting,
        "public_restored": done.public,
        "head": done.head or None,
        "lines": done.lines,
    }
    text = [f"restored {done.manifest.study}", *done.lines]
    if done.head:
        text.append(f"head {done.head}")
    return Output(data, "\n".join(text))
