"""The documents that describe published tables, by the name of their file.

A Frictionless Data Package is `datapackage.json`, with a schema of each table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dp.client import PublicLog
from stream_dp.json_object import Json

from .catalogue_entries import dcat, registry_entry
from .codebook import codebook
from .croissant import croissant
from .description import (
    DescribedColumn,
    DescribedFile,
    DescribedTable,
    Description,
    described_columns,
    json_bytes,
    privacy_fields,
)
from .release_tables import (
    COVARIANCE,
    COVARIANCE_COLUMNS,
    listed_values,
    series_columns,
    table_sample,
    tables_of,
)


def datapackage(description: Description) -> bytes:
    """The package of the first file of every table. Paths must be addresses or below it."""
    package: Json = {
        "profile": "data-package",
        "name": description.name.lower(),
        "title": description.title,
        "description": description.text,
        "version": description.version,
        "keywords": list(description.keywords),
    }
    if description.published is not None:
        package["created"] = f"{description.published.isoformat()}T00:00:00Z"
    if description.address:
        package["homepage"] = description.address
    curator, licence = description.study.curator, description.licence_address
    if curator is not None:
        contributor: Json = {"title": curator.name, "role": "publisher"}
        contact = description.contact_address
        if contact is not None:
            key = "email" if contact.startswith("mailto:") else "path"
            contributor[key] = curator.contact
        package["contributors"] = [contributor]
        if curator.licence is not None:
            named = {} if curator.licence == licence else {"name": curator.licence}
            package["licenses"] = [{**named, "path": licence}]
    package["citation"] = description.citation
    package["privacy"] = privacy_fields(description.privacy)
    package["resources"] = [_resource(table) for table in description.tables]
    return json_bytes(package)


def _resource(table: DescribedTable) -> Json:
    """A table's main file with its columns, as a resource of the package."""
    file = table.main
    is_csv = file.form == "csv"
    resource: Json = {
        "name": table.name.lower(),
        "type": "table" if is_csv else "file",
        "title": table.title,
        "path": file.path,
        "format": file.form,
        "mediatype": file.media,
    }
    if is_csv:
        resource |= {"profile": "tabular-data-resource", "encoding": "utf-8"}
    if file.size is not None:
        resource["bytes"] = file.size
    if file.sha256 is not None:
        resource["hash"] = f"sha256:{file.sha256}"
    return {**resource, "schema": {"fields": [_field(column) for column in table.columns]}}


def _field(column: DescribedColumn) -> Json:
    """A column with its values and more telling labels."""
    field: Json = {"name": column.name, "type": column.type, "description": column.label}
    if column.values:
        field["constraints"] = {"enum": [value for value, _ in column.values]}
        labels = [{"value": v, "label": t} for v, t in column.values if str(v) != t]
        if labels:
            field["categories"] = labels
    if column.codes:
        field["missingValues"] = ["", *map(str, column.codes)]
    return field


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
