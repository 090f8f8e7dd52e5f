"""Files that an agency sends: its study, its people, and tables in several formats."""

import json

import pyarrow as pa
import pyarrow.parquet

from kit.studies import BINARY, attribute, cumulative, study_toml, window

STUDY = study_toml(
    name="agency",
    size=60,
    attributes={**BINARY, "work": attribute(["no", "half day"], missing="absent")},
    releases=[
        window("months", "poverty", width=1, rho="200000"),
        cumulative("often", "work", ["half day"], rho="1"),
    ],
    rho="200001",
)
PEOPLE = [f"{i:04}" for i in range(1, 41)]
HEAD = ("person", "period", "poverty", "work")


def rows(period="2021-01", people=PEOPLE):
    return [(person, period, 1, "half day") for person in people]


def text(rows, head=HEAD, separator=",", end="\n"):
    return end.join(separator.join(map(str, row)) for row in [head, *rows]) + end


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(**columns):
    sink = pa.BufferOutputStream()
    count = len(next(iter(columns.values())))
    given = {"person": PEOPLE[:count], "period": ["2021-01"] * count, "poverty": [1] * count}
    pa.parquet.write_table(pa.table({**given, **columns}), sink)
    return sink.getvalue().to_pybytes()


def sent(study):
    """How many reports lie in the log."""
    from stream_dp.log.log import Missing
    from stream_dp.log.sqlite import SqliteLog

    try:
        log = SqliteLog(study.parent / "agency.db", readonly=True)
        reports = log.read("reports", {0: 0}, 10_000, 0).records
        log.close()
    except Missing:
        return 0
    return len(reports)


def share_of_poor(command, study, period):
    words = ["estimate", study, "months", "pattern 1", "--period", period, "--json"]
    return json.loads(command(*words)[1])["value"]
