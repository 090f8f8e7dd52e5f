"""`export` of a batch release: two Parquet files, of groups and of people, tied by a key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from stream_dp.client import PublicLog
from stream_dp.errors import UserError, write_error

from ..files import writing
from ..output import Output


def export_groups(public: PublicLog, name: str, period: str | None, out: Path) -> Output:
    found = public.data_set(name, period)
    if out.suffix:
        raise UserError(f"{out}: this release has two tables: name a folder for them")
    held = found.certificate
    about = {b"stream-dp-release": found.message.hash.encode()}
    paths = []
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(out, error) from None
    for which, table in zip(("groups", "people"), found.tables, strict=True):
        paths.append(out / f"{which}.parquet")
        with writing(paths[-1]) as draft:
            pa.parquet.write_table(table.replace_schema_metadata(about), draft)
    data = {
        "out": [str(path) for path in paths],
        "groups": held.groups,
        "people": held.people,
        "period": held.period,
        "hash": found.message.hash,
    }
    unit = public.study.groups.unit if public.study.groups is not None else "group"
    text = (
        f"{paths[0]}: {held.groups} synthetic {unit}s\n"
        f"{paths[1]}: {held.people} synthetic members, of {held.period}"
    )
    return Output(data, text)
