"""Answers of all periods as SDMX-CSV 2.0: a row for each observation of a time series."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.client import PublicLog
from stream_dp.study import Study

from .described_columns import DescribedColumn

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
    "TIME_PERIOD": "the period of the answer",
    "STEP": "the number of the period, which has no date",
    "OBS_VALUE": "the unbiased answer",
    "STANDARD_ERROR": "the standard error of the privacy noise",
    "LOW": "the lower end of an interval of 95 % for the privacy noise",
    "HIGH": "the upper end of an interval of 95 % for the privacy noise",
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
    order = ["release", "stratum", "query", "measure", "period", "value"]
    order += ["standard_error", "low", "high", "head"]
    names = [column.name for column in series_columns(study)]
    return pa.table([*constant, *(answers[name] for name in order)], names=names)
