"""From published releases to what their answers are computed from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from .estimate.data_sets.published import PublishedTables
from .estimate.estimator import StreamMeasurements
from .estimate.factor_cache import FactorCache
from .estimate.measurements import PeriodMeasurements, releases_of_stream
from .release.data_sets import DataSet, binned
from .release.panels import check_strategy
from .release.published import PublishedRelease
from .study import Study
from .study.scale import Numbers


def stream_measurements(
    study: Study, stream: str, releases: Iterable[PublishedRelease], cache: FactorCache | None
) -> StreamMeasurements:
    """The measurements of the releases of one stream. Raises Inconsistent.

    releases: every one, those of a name in the order of publication
    cache: where its factor is kept
    """
    messages: dict[str, list[PeriodMeasurements]] = {}
    for release in releases:
        certificate, table = release.certificate, release.measurements
        check_strategy(study, certificate)
        values, errors = (
            table[column].to_numpy().astype(float) for column in ("value", "standard_error")
        )
        answers = PeriodMeasurements(certificate.number, values, errors**2)
        messages.setdefault(certificate.release, []).append(answers)
    return StreamMeasurements(tuple(releases_of_stream(study, messages, stream)), cache)


def published_tables(study: Study, data_set: DataSet) -> PublishedTables:
    """A data set, checked, its numbers in bins. Raises Inconsistent."""
    certificate = data_set.certificate
    declared = study.batch(certificate.release)
    assert declared is not None
    exact = data_set.check()
    columns, tables = binned(certificate.columns, exact)
    known, order = certificate.columns["people"], exact["people"].column_names
    values = {name: known[name] for name in order if name in known}
    numbers = {name: own for name, own in values.items() if isinstance(own, Numbers)}
    return PublishedTables(
        study=study,
        declared=declared,
        period=certificate.period,
        columns=columns,
        tables=tables,
        measurements=data_set.measurements,
        numbers=numbers,
        number_codes={n: exact["people"][n].to_numpy().astype(np.int64) for n in numbers},
    )


def tables_by_period(tables: list[tuple[str, pa.Table]]) -> pa.Table:
    """The tables below each other, with the period of each as a first column."""
    return pa.concat_tables(
        table.add_column(0, "period", pa.array([period] * table.num_rows, pa.string()))
        for period, table in tables
    )
