"""From published releases to the input of their answers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from stream_dp.release.public_reader import PublishedRelease
from stream_dp.release.published_tables import DataSet, binned
from stream_dp.study import Study
from stream_dp.study.scale import Numbers

from .estimator import StreamMeasurements
from .factor_cache import FactorCache
from .measured_rows import PeriodMeasurements, releases_of_stream
from .tables.table_facts import PublishedTables


def stream_measurements(
    study: Study, stream: str, releases: Iterable[PublishedRelease], cache: FactorCache | None
) -> StreamMeasurements:
    """The measurements of the releases of a stream. Raises Inconsistent.

    releases: all, in the order of publication for every name
    cache: of the stream's factor
    """
    messages: dict[str, list[PeriodMeasurements]] = {}
    for release in releases:
        certificate, table = release.certificate, release.measurements
        values, errors = (
            table[column].to_numpy().astype(float) for column in ("value", "standard_error")
        )
        answers = PeriodMeasurements(certificate.number, values, errors**2)
        messages.setdefault(certificate.release, []).append(answers)
    return StreamMeasurements(tuple(releases_of_stream(study, messages, stream)), cache)


def published_tables(study: Study, data_set: DataSet) -> PublishedTables:
    """A checked data set with numbers in bins. Raises Inconsistent."""
    certificate = data_set.certificate
    declared = study.batch(certificate.release)
    assert declared is not None
    exact = data_set.check()
    columns, tables = binned(certificate.columns, exact)
    columns_of_people, order = certificate.columns["people"], exact["people"].column_names
    values = {name: columns_of_people[name] for name in order if name in columns_of_people}
    numbers = {name: scale for name, scale in values.items() if isinstance(scale, Numbers)}
    return PublishedTables(
        study=study,
        declared=declared,
        period=certificate.period,
        columns=columns,
        tables=tables,
        measurements=data_set.measurements,
        numbers=numbers,
        fused_with=tuple(sorted(certificate.ancestors, key=study.periods.labels.index)),
        number_codes={n: exact["people"][n].to_numpy().astype(np.int64) for n in numbers},
    )


def tables_by_period(tables: list[tuple[str, pa.Table]]) -> pa.Table:
    """Stacks tables, with their periods in the first column."""
    return pa.concat_tables(
        table.add_column(0, "period", pa.array([period] * table.num_rows, pa.string()))
        for period, table in tables
    )
