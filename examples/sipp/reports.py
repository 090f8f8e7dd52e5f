"""Reports from a public-use file of the SIPP: python reports.py pu2021.csv sipp-reports.csv

The file of the Census Bureau has a row for each person and month, with `|` between its cells. A
person is SSUID and PNUM, and is poor in a month in which THINCPOVT2, the ratio of the household's
income to its poverty threshold, is below 1. Weights are ignored. A month without a ratio gives no
report. Then: stream-dp send sipp.toml sipp-reports.csv
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

YEAR = 2020  # the reference year of the panel of 2021
COLUMNS = ["SSUID", "PNUM", "MONTHCODE", "THINCPOVT2"]

HEADER = pa.schema({"person": pa.string(), "period": pa.string(), "poverty": pa.string()})


def refuse(line: str) -> NoReturn:
    """One line of what is wrong, and exit code 2."""
    print(line, file=sys.stderr)
    sys.exit(2)


def write(source: str, target: str) -> None:
    rows = pa.csv.open_csv(
        source,
        parse_options=pa.csv.ParseOptions(delimiter="|"),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.string()),
            include_columns=COLUMNS,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    with pa.csv.CSVWriter(target, HEADER) as reports:
        for batch in rows:
            ssuid, pnum, month, ratio = batch.columns
            person = pc.binary_join_element_wise(ssuid, pnum, "-")
            period = pc.binary_join_element_wise(str(YEAR), pc.utf8_lpad(month, 2, "0"), "-")
            poor = pc.if_else(pc.less(pc.cast(ratio, pa.float64()), 1), "1", "0")
            table = pa.table([person, period, poor], schema=HEADER)
            reports.write_table(table.filter(pc.is_valid(poor)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        refuse("usage: reports.py pu2021.csv OUT.csv")
    try:
        write(*sys.argv[1:])
    except OSError:
        here = Path(sys.argv[1]).is_file()
        refuse(f"{sys.argv[2]}: cannot be written" if here else f"{sys.argv[1]}: no such file")
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # Arrow's own words may quote a cell
        needed = ", ".join(COLUMNS)
        refuse(f"{sys.argv[1]}: no file of the SIPP: its cells are split by | and it has {needed}")
