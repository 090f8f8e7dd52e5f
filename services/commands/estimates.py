"""`stream-dp estimates`: writes all answers of all releases as one tidy table."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import LEVEL
from stream_dp.errors import UserError
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.study import Study

from ..process.command_output import Output
from ..storage.atomic_files import atomic_file
from ..storage.deployment import open_pinned


def run(options: argparse.Namespace) -> Output:
    out: Path = options.out
    if out.suffix not in {".parquet", ".csv"}:
        raise UserError(f"{out}: write it as .parquet or .csv")

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        if study.batch(certificate.release) is None:
            return table == "measurements"
        return options.release in (None, certificate.release)

    public, _ = open_pinned(options, keep)
    if not public.published:
        raise UserError("public log: nothing is published yet")
    table = public.answer_table(options.release)
    with atomic_file(out, public=True) as draft:
        if out.suffix == ".csv":
            pa.csv.write_csv(table, draft)
        else:
            pa.parquet.write_table(table, draft)
    text = (
        f"{out}: {table.num_rows} answers, with intervals of {LEVEL:.0%} for the privacy noise,"
        f" as of head {public.head}"
    )
    return Output({"out": str(out), "rows": table.num_rows, "head": public.head}, text)
