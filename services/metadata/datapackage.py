"""Frictionless Data Package: `datapackage.json`, with a schema of each table."""

from __future__ import annotations

from stream_dp.json_object import Json

from .described_columns import DescribedColumn
from .description import DescribedTable, Description, json_bytes, privacy_fields


def datapackage(description: Description) -> bytes:
    """The package of the first file of each table. Paths must be addresses or below it."""
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
    field: Json = {"name": column.name, "type": column.type, "description": column.label}
    if column.values:
        field["constraints"] = {"enum": [value for value, _ in column.values]}
        labels = [{"value": v, "label": t} for v, t in column.values if str(v) != t]
        if labels:
            field["categories"] = labels
    return field
