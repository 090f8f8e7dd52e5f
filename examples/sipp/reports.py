"""Reports from a public-use file of the SIPP: python reports.py pu2021.csv sipp-reports.csv

The file of the Census Bureau has a row for each person and month, with `|` between its cells. A
person is SSUID and PNUM, and is poor in a month in which THINCPOVT2, the ratio of the household's
income to its poverty threshold, is below 1. Weights are ignored. A month without a ratio gives no
report. Then: stream-dp send sipp.toml sipp-reports.csv
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

YEAR = 2020  # the reference year of the panel of 2021
COLUMNS = ["SSUID", "PNUM", "MONTHCODE", "THINCPOVT2"]

source, target = sys.argv[1:]
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
header = pa.schema({"person": pa.string(), "period": pa.string(), "poverty": pa.string()})
with pa.csv.CSVWriter(target, header) as reports:
    for batch in rows:
        ssuid, pnum, month, ratio = batch.columns
        person = pc.binary_join_element_wise(ssuid, pnum, "-")
        period = pc.binary_join_element_wise(str(YEAR), pc.utf8_lpad(month, 2, "0"), "-")
        poor = pc.if_else(pc.less(pc.cast(ratio, pa.float64()), 1), "1", "0")
        table = pa.table([person, period, poor], schema=header)
        reports.write_table(table.filter(pc.is_valid(poor)))
