"""`stream-dp schema`: the schemas of a study's reports."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_dp.errors import write_error
from stream_dp.study import Study

from ..contract.reports import report_avro, report_schema
from ..deployment import Deployment
from ..options import study_file
from ..output import Output

# By kind: the end of the file's name, and what makes the schema.
_KINDS: dict[str, tuple[str, Callable[[Study], dict[str, Any]]]] = {
    "json": ("report.schema.json", report_schema),
    "avro": ("report.avsc", report_avro),
}


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    words = "JSON Schema of reports (the default), or Avro; several with --out"
    parser.add_argument("--kind", choices=_KINDS, action="append", help=words)
    words = "write STUDY.report.schema.json and so on into this folder; without --kind all of them"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=words)


def run(options: argparse.Namespace) -> Output:
    study = Deployment.load(options.study).study
    folder: Path | None = options.out
    if folder is None:
        _, make = _KINDS[(options.kind or ["json"])[-1]]
        schema = make(study)
        return Output(schema, _text(schema))
    files = []
    for kind in dict.fromkeys(options.kind or _KINDS):
        ending, make = _KINDS[kind]
        path = folder / f"{study.name}.{ending}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(_text(make(study)) + "\n", "utf-8")
        except OSError as error:
            raise write_error(path, error) from None
        files.append(str(path))
    return Output({"files": files}, "\n".join(files))


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2)
