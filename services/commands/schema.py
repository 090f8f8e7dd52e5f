"""`stream-dp schema`: the schemas of a study's reports, and AsyncAPI of all its topics."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from stream_dp.errors import write_error
from stream_dp.log.mark import make_folder

from ..contract.answer_records import answer_avro
from ..contract.asyncapi import asyncapi
from ..contract.report_schemas import report_avro, report_schema
from ..deployment import Deployment
from ..options import study_file
from ..process.output import Output
from ..storage.atomic_files import write_text_file

# By kind: the end of the file's name, and what makes the schema.
_KINDS: dict[str, tuple[str, Callable[[Deployment], dict[str, object]]]] = {
    "json": ("report.schema.json", lambda deployment: report_schema(deployment.study)),
    "avro": ("report.avsc", lambda deployment: report_avro(deployment.study)),
    "asyncapi": ("asyncapi.json", lambda deployment: asyncapi(deployment.study, deployment.run)),
    "estimates-avro": ("estimate.avsc", lambda _: answer_avro()),
}


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = (
        "JSON Schema of reports (the default), Avro of reports, Avro of answers, or AsyncAPI"
    )
    help_text += " of all topics; several with --out"
    parser.add_argument("--kind", choices=_KINDS, action="append", help=help_text)
    help_text = (
        "write STUDY.report.schema.json and so on into this folder; without --kind all of them"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=help_text)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    folder: Path | None = options.out
    if folder is None:
        _, make = _KINDS[(options.kind or ["json"])[-1]]
        schema = make(deployment)
        return Output(schema, _text(schema))
    files = []
    for kind in dict.fromkeys(options.kind or _KINDS):
        ending, make = _KINDS[kind]
        path = folder / f"{deployment.study.name}.{ending}"
        try:
            make_folder(folder, public=True)
        except OSError as error:
            raise write_error(path, error) from None
        write_text_file(path, _text(make(deployment)) + "\n", public=True)
        files.append(str(path))
    return Output({"files": files}, "\n".join(files))


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=2)
