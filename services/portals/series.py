"""Answers of all periods as SDMX-CSV 2.0, and the covariances of answers, which share their noise.

A row of the series is an observation.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.client import PublicLog
from stream_dp.release.answer import ReleaseQuery
from stream_dp.study import Study

from .described_columns import DescribedColumn

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
        release_queries = [ReleaseQuery(releases[row], queries[row], periods[row]) for row in rows]
        joint = public.answers(release_queries, count=measure == "count")
        first, second = np.triu_indices(rows.size)
        cells = rows[first] + 1, rows[second] + 1, joint.covariance[first, second]
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
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


SERIES = "series"
SERIES_MEDIA = "application/vnd.sdmx.data+csv;version=2.0.0"
_LABELS = {
    "STRUCTURE": "the kind of structure that describes the row",
    "STRUCTURE_ID": "the agency, the id and the version of the structure",
    "ACTION": "I: the row is information",
    "RELEASE": "the release that answers",
    "STRATUM": "the stratum of the release; empty for all people",
    "QUERY": "the question that is answered",
    "MEASURE": "share or count",
    "PEOPLE": "of whom a share is; empty for a count",
    "TIME_PERIOD": "the period of the answer",
    "STEP": "the number of the period, which has no date",
    "OBS_VALUE": "the answer: of least error, or of records; unbiased where UNBIASED is empty",
    "STANDARD_ERROR": "the root mean square error by the privacy noise",
    "LOW": "the lower end of an interval of 95 % for the privacy noise",
    "HIGH": "the upper end of an interval of 95 % for the privacy noise",
    "UNBIASED": "the unbiased answer beside another",
    "UNBIASED_ERROR": "the standard error of the unbiased answer",
    "UNBIASED_LOW": "the lower end of the interval of the unbiased answer",
    "UNBIASED_HIGH": "the upper end of the interval of the unbiased answer",
    "HEAD": "the head of the public log that the answer was computed from",
}


def has_series(public: PublicLog, release: str | None = None) -> bool:
    """Whether a release, or any, has answers of its own in a table: sizes have none."""
    names = {r.certificate.release for r in public.published}
    declared = [public.study.declared(name) for name in names if release in (None, name)]
    return any(one is not None and one.counts_people for one in declared)


def time_column(study: Study) -> str:
    """The name of the column with the periods: those of steps have no dates."""
    return "STEP" if study.periods.every == "step" else "TIME_PERIOD"


def series_columns(study: Study) -> tuple[DescribedColumn, ...]:
    """The columns of `series_table`, dimensions before the observation and its attributes."""
    time = time_column(study)
    numbers = {"OBS_VALUE", "STANDARD_ERROR", "LOW", "HIGH"}
    numbers |= {name for name in _LABELS if name.startswith("UNBIASED")}
    names = [name for name in _LABELS if name not in {"STEP", "TIME_PERIOD"} - {time}]
    return tuple(
        DescribedColumn(name, "number" if name in numbers else "string", _LABELS[name])
        for name in names
    )


def series_table(
    public: PublicLog, release: str | None = None, period: str | None = None
) -> pa.Table:
    """All answers of a release, or of all releases that have some. Raises UserError.

    period: of the answers; None for all.

    Names that SDMX does not allow, with a dot, have an underscore there.
    """
    answers, study = public.answer_table(release), public.study
    if period is not None:
        answers = answers.filter(pc.equal(answers["period"], period))
    rows = answers.num_rows
    structure = f"STREAM_DP:{study.name.replace('.', '_')}(1.0)"
    constant = [pa.array([text] * rows, pa.string()) for text in ("dataflow", structure, "I")]
    order = ["release", "stratum", "query", "measure", "people", "period", "value"]
    order += ["standard_error", "low", "high", "unbiased", "unbiased_error", "unbiased_low"]
    order += ["unbiased_high", "head"]
    names = [column.name for column in series_columns(study)]
    return pa.table([*constant, *(answers[name] for name in order)], names=names)
