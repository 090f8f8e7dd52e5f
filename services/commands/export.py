"""`stream-dp export`: writes a synthetic panel, or the two tables of a data set."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, write_error
from stream_dp.release.data_sets import BatchCertificate
from stream_dp.release.published import AnyCertificate
from stream_dp.study import Study

from ..deployment import open_public
from ..files import writing
from ..options import public_source
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", metavar="RELEASE")
    words = "a panel: a file .parquet or .csv; groups and people: a folder for two Parquet files"
    parser.add_argument("out", type=Path, metavar="OUT", help=words)
    parser.add_argument("--period", help="the panel up to this period; the last one by default")


def run(options: argparse.Namespace) -> Output:
    out: Path = options.out

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        last = study.periods.numbers.get(options.period, study.periods.count)
        ours = certificate.release == options.release and certificate.number <= last
        return ours and (table == "panel" or isinstance(certificate, BatchCertificate))

    public, _ = open_public(options.source, keep)
    if public.study.batch(options.release) is not None:
        return _export_groups(public, options.release, options.period, out)
    if out.suffix not in {".parquet", ".csv"}:
        raise UserError(f"{out}: write it as .parquet or .csv")
    bias = public.release_at(options.release, options.period).certificate.panel_bias
    panel = public.panel(options.release, options.period)
    tables = panel.tables()
    first_rows = next(tables)
    opened = pa.csv.CSVWriter if out.suffix == ".csv" else pa.parquet.ParquetWriter
    with writing(out) as draft, opened(draft, first_rows.schema) as file:
        for table in chain([first_rows], tables):
            file.write_table(table)
    first, last = panel.periods[0], panel.periods[-1]
    data = {"out": str(out), "rows": panel.rows, "periods": list(panel.periods)}
    text = [f"{out}: {panel.rows} synthetic rows, {first} to {last}"]
    if bias is not None:
        data["panel_bias"] = bias
        text.append(f"panel bias: {bias}")
    return Output(data, "\n".join(text))


def _export_groups(public: PublicLog, name: str, period: str | None, out: Path) -> Output:
    """Writes `groups.parquet` and `people.parquet` of a data set to the folder `out`."""
    data_set = public.data_set(name, period)
    if out.suffix:
        raise UserError(f"{out}: this release has two tables: name a folder for them")
    certificate = data_set.certificate
    about = {b"stream-dp-release": data_set.message.hash.encode()}
    paths = []
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(out, error) from None
    for which, table in zip(("groups", "people"), data_set.tables, strict=True):
        paths.append(out / f"{which}.parquet")
        with writing(paths[-1]) as draft:
            pa.parquet.write_table(table.replace_schema_metadata(about), draft)
    data = {
        "out": [str(path) for path in paths],
        "groups": certificate.groups,
        "people": certificate.people,
        "period": certificate.period,
        "hash": data_set.message.hash,
    }
    unit = public.study.groups.unit if public.study.groups is not None else "group"
    text = (
        f"{paths[0]}: {certificate.groups} synthetic {unit}s\n"
        f"{paths[1]}: {certificate.people} synthetic members, of {certificate.period}"
    )
    return Output(data, text)
