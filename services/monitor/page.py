"""`stream-dp page`: writes a self-contained HTML file about a public log."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_dp.errors import UserError

from ..process.command_output import Output
from ..storage.atomic_files import write_text_file
from ..storage.deployment import open_pinned
from .study_page import study_page


def run(options: argparse.Namespace) -> Output:
    out: Path = options.out
    if out.suffix not in {".html", ".htm"}:
        raise UserError(f"{out}: write it as .html")
    public, _ = open_pinned(options)
    text = study_page(public)
    write_text_file(out, text, public=True)
    data = {"out": str(out), "releases": len(public.published), "head": public.head}
    count = len(public.published)
    number = {0: "no release yet", 1: "one release"}.get(count, f"{count} releases")
    return Output(data, f"{out}: {number} of study {public.study.name}")
