"""Covariances of the answers of a time series, which share their noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_dp.answers.answer import ReleaseQuery
from stream_dp.client import PublicLog

from .described_columns import DescribedColumn
from .series import time_column

COVARIANCE = "covariance"
MOST = 500  # answers of a measure
COVARIANCE_COLUMNS = (
    DescribedColumn("first", "integer", "an answer: its row in the time series, from 1"),
    DescribedColumn("second", "integer", "another answer, or the same; not before the first"),
    DescribedColumn("covariance", "number", "the covariance of the privacy noise of both answers"),
)


def covariance_table(public: PublicLog, series: pa.Table) -> pa.Table:
    """The covariances of all pairs of answers of the same measure; no rows without any error.

    series: of `series_table`, of one release. Of each measure the table has the first `MOST`
    answers with a standard error, in the order of `_by_length`. Raises UserError.
    """
    columns: list[list[np.ndarray]] = [[], [], []]
    time, queries = time_column(public.study), series["QUERY"].to_pylist()
    releases, periods = series["RELEASE"].to_pylist(), series[time].to_pylist()
    for measure in ("share", "count"):
        rows = np.sort(_by_length(series, measure)[:MOST])
        if not rows.size:
            continue
        asked = [ReleaseQuery(releases[row], queries[row], periods[row]) for row in rows]
        joint = public.answers(asked, count=measure == "count")
        first, second = np.triu_indices(rows.size)
        parts = rows[first] + 1, rows[second] + 1, joint.covariance[first, second]
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
    kinds = pa.int64(), pa.int64(), pa.float64()
    arrays = [
        pa.array(np.concatenate(column) if column else [], kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in COVARIANCE_COLUMNS])


def _by_length(series: pa.Table, measure: str) -> list[int]:
    """The rows of a measure with a standard error, from 0.

    Queries of the fewest words come first, and of each query the latest periods.
    """
    queries = series["QUERY"].to_pylist()
    order = {query: position for position, query in enumerate(dict.fromkeys(queries))}
    measures, errors = series["MEASURE"].to_pylist(), series["STANDARD_ERROR"].to_pylist()
    rows = (row for row, error in enumerate(errors) if error is not None)
    return sorted(
        (row for row in rows if measures[row] == measure),
        key=lambda row: (len(queries[row].split()), order[queries[row]], -row),
    )
