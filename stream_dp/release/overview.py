"""The releases of a public log as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from stream_dp.notebook_html import html_rows
from stream_dp.study import Study

from .public_reader import AnyPublished

_SHOWN = 10  # releases in a notebook
_COLUMNS = pa.schema(
    {
        "release": pa.string(),
        "kind": pa.string(),
        "period": pa.string(),
        "number": pa.int64(),
        "time": pa.timestamp("ms", "UTC"),
        "rows": pa.int64(),
        "groups": pa.int64(),
        "rho": pa.float64(),
        "rho_spent": pa.float64(),
        "epsilon_spent": pa.float64(),
        "mechanism": pa.string(),
        "hash": pa.string(),
    }
)


def release_rows(study: Study, published: Iterable[AnyPublished]) -> pa.Table:
    """A row for each release, in order; `PublicLog.release_table` explains the columns."""
    rows = []
    for release in published:
        certificate = release.certificate
        time = study.periods.release_time(certificate.number)
        people, groups = certificate.synthetic_rows
        rows.append(
            {
                "release": certificate.release,
                "kind": certificate.kind,
                "period": certificate.period,
                "number": certificate.number,
                "time": None if time is None else round(time * 1000),
                "rows": people,
                "groups": groups,
                "rho": float(certificate.rho),
                "rho_spent": float(certificate.rho_spent),
                "epsilon_spent": float(certificate.epsilon_spent),
                "mechanism": certificate.mechanism,
                "hash": release.message.hash,
            }
        )
    return pa.Table.from_pylist(rows, _COLUMNS)


def html_overview(study: Study, published: Sequence[AnyPublished]) -> str:
    """The newest releases as a table for notebooks."""
    names = ["release", "kind", "period", "rows", "rho", "rho_spent", "epsilon_spent"]
    newest = release_rows(study, published[-_SHOWN:]).select(names).to_pylist()
    title = f"Study {study.name}: {len(published):,} releases, the newest last"
    return html_rows(title, names, [tuple(row.values()) for row in newest])
