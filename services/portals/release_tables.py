"""The tables of a release that can be taken away, by family: names, rows and columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stream_dp.client import PublicLog
from stream_dp.panel import Panel
from stream_dp.study import Family
from stream_dp.study.families import PANEL_FAMILIES, Registry

PANEL = "panel"


def tables_of(public: PublicLog, name: str) -> tuple[str, ...]:
    """The names of a release's tables. Raises UserError."""
    return _TABLES[_family(public, name)][0]


def release_table(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    """The rows of a table of `tables_of`, but for the panel. Raises UserError.

    period: of a panel's other tables None for all periods; otherwise None is the latest.
    """
    return _TABLES[_family(public, name)][1](public, name, table, period)


def table_sample(public: PublicLog, name: str, table: str, period: str | None = None) -> pa.Table:
    """A table with the columns of `release_table`; the rows of a panel have each value once."""
    if table != PANEL:
        return release_table(public, name, table, period)
    certificates = [release.certificate for release in public.releases_of(name)]
    columns = tuple(column for certificate in certificates for column in certificate.columns)
    values = certificates[-1].values
    codes = np.repeat(np.arange(len(values), dtype=np.uint8)[:, None], len(columns), axis=1)
    return Panel(codes, columns, values).table()


def listed_values(
    public: PublicLog, name: str, table: str, sample: pa.Table, period: str | None = None
) -> dict[str, tuple[int | str, ...]]:
    """By column, its possible values if they are listed. sample: of `table_sample`."""
    if table == PANEL:
        names = sample.column_names[1:]
        return {column: tuple(dict.fromkeys(sample[column].to_pylist())) for column in names}
    if table not in {"people", "groups", "events"}:
        return {}
    columns = public.data_set(name, period).certificate.columns[table]
    return {
        column: tuple(str(v) if pa.types.is_string(sample[column].type) else v for v in values)
        for column, values in columns.items()
        if isinstance(values, tuple)
    }


def _family(public: PublicLog, name: str) -> Family:
    return (public.study.declared(name) or public.study.release(name)).family


def _table_of_sizes(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    sizes = public.sizes(name, period)
    return sizes.table if table == "sizes" else sizes.measurements


def _table_of_data_set(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    data_set = public.data_set(name, period)
    if table == "measurements":
        return data_set.measurements
    return data_set.named_tables[table]


def _table_of_panel(public: PublicLog, name: str, table: str, period: str | None) -> pa.Table:
    if period is not None:
        release = public.release_at(name, period)
        return release.measurements if table == "measurements" else release.estimates
    return public.measurements(name) if table == "measurements" else public.estimates(name)


# By family: the names of the tables, and a reader of all but the panel.
_TABLES: Registry[
    Family, tuple[tuple[str, ...], Callable[[PublicLog, str, str, str | None], pa.Table]]
] = Registry(
    "tables of releases",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, ((PANEL, "measurements", "estimates"), _table_of_panel)),
        Family.PEOPLE: (("people", "measurements"), _table_of_data_set),
        Family.HOUSEHOLDS: (("groups", "people", "measurements"), _table_of_data_set),
        Family.EVENTS: (("people", "events", "measurements"), _table_of_data_set),
        Family.SIZES: (("sizes", "measurements"), _table_of_sizes),
    },
)
