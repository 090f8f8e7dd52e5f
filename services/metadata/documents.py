"""The documents that describe published tables, by the name of their file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dp.client import PublicLog

from .codebook import codebook
from .covariances import COVARIANCE, COVARIANCE_COLUMNS
from .croissant import croissant
from .datapackage import datapackage
from .dcat import dcat
from .described_columns import described_columns
from .description import DescribedFile, DescribedTable, Description
from .registry_entry import registry_entry
from .release_tables import listed_values, table_sample, tables_of
from .series import series_columns


@dataclass(frozen=True)
class Document:
    """A format. title: its name for people."""

    title: str
    media: str
    write: Callable[[Description], bytes]


DOCUMENTS = {
    "dcat.jsonld": Document("DCAT-AP", "application/ld+json", dcat),
    "croissant.json": Document("Croissant", "application/ld+json", croissant),
    "datapackage.json": Document("Frictionless", "application/json", datapackage),
    "ddi.xml": Document("DDI codebook", "application/xml", codebook),
    "registry.yaml": Document("DP Deployments Registry", "application/yaml", registry_entry),
}


def described_tables(
    public: PublicLog,
    release: str,
    period: str | None,
    files: Callable[[str], Sequence[DescribedFile]],
) -> list[DescribedTable]:
    """The tables of a release. files: those of a table. Raises UserError."""
    declared = public.study.declared(release) or public.study.release(release)
    tables = []
    for table in tables_of(public, release):
        sample = table_sample(public, release, table, period)
        values = listed_values(public, release, table, sample, period)
        columns = described_columns(public.study, declared, table, sample.schema, values)
        name, title = f"{release}-{table}", f"Release {release}: {table}"
        tables.append(DescribedTable(name, title, columns, tuple(files(table))))
    return tables


def described_series(public: PublicLog, file: DescribedFile) -> DescribedTable:
    """The table of `series_table`."""
    title = "Estimates of all periods with their errors, as SDMX-CSV"
    return DescribedTable("series", title, series_columns(public.study), (file,))


def described_covariances(file: DescribedFile) -> DescribedTable:
    """The table of `covariance_table`."""
    title = "Covariances of the estimates, by their rows in the time series"
    return DescribedTable(COVARIANCE, title, COVARIANCE_COLUMNS, (file,))
