"""`stream-dp restore`: a study from its backup, if no noise could be drawn again. CONFIDENTIAL."""

from __future__ import annotations

import argparse

from ..process.command_output import Output
from ..storage.file_stores import file_store
from ..storage.study_restore import restore


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
