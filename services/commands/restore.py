"""`stream-dp restore`: a study from its backup, if no noise could be drawn again. CONFIDENTIAL."""

from __future__ import annotations

import argparse

from ..intake.options import study_file
from ..process.command_output import Output
from ..process.pin_options import head_option
from ..storage.file_stores import file_store
from ..storage.study_restore import restore


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("place", metavar="DIR|URL", help="where `stream-dp backup` wrote it")
    help_text = (
        "the last hash of the public log that was kept elsewhere; needed if the public log is lost"
    )
    head_option(parser, help_text)


def run(options: argparse.Namespace) -> Output:
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
