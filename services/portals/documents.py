"""The documents that describe published tables, by the name of their file.

A Frictionless Data Package is `datapackage.json`, with a schema of each table. A DDI codebook (2.5)
has the study, its files, its variables and their categories, in XML. Croissant 1.0 (MLCommons) is a
description of tables in JSON-LD, with its RAI vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from stream_dp.client import PublicLog
from stream_dp.json_object import Json

from .catalogue_entries import dcat, registry_entry
from .description import (
    SOFTWARE,
    DescribedColumn,
    DescribedFile,
    DescribedTable,
    Description,
    described_columns,
    json_bytes,
    privacy_fields,
    privacy_rows,
)
from .release_tables import (
    COVARIANCE,
    COVARIANCE_COLUMNS,
    listed_values,
    series_columns,
    table_sample,
    tables_of,
)

_CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES = {"integer": "sc:Integer", "number": "sc:Float", "string": "sc:Text"}
_ENCODINGS = {  # as readers of Croissant know them
    "csv": "text/csv",
    "parquet": "application/x-parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "json": "application/json",
}
_MOST_VALUES = 20  # in a field's description


def croissant(description: Description) -> bytes:
    """The description of all tables, with fields for the columns of the first file of each."""
    study, curator = description.study, description.study.curator
    privacy = [f"{name}: {text}" for name, text in privacy_rows(description.privacy)]
    dataset: Json = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": description.name,
        "alternateName": description.title,
        "description": description.text,
        "version": description.version,
        "keywords": list(description.keywords),
        "citeAs": description.citation,
        "creditText": SOFTWARE,
        "isAccessibleForFree": True,
        "measurementTechnique": list(description.privacy.mechanisms),
        "additionalProperty": [
            {"@type": "sc:PropertyValue", "name": name, "value": text}
            for name, text in privacy_rows(description.privacy)
        ],
        "rai:personalSensitiveInformation": privacy,
        "rai:dataManipulationProtocol": (
            "Noise is added to counts; synthetic records follow the noisy counts."
        ),
        "rai:dataLimitations": [
            "Answers counted in the synthetic records may be biased and have no interval;"
            " 'estimate' answers the same questions with an error and an interval.",
            *description.privacy.not_protected,
        ],
        "distribution": [
            _file_object(table, file) for table in description.tables for file in table.files
        ],
        "recordSet": [_records(table) for table in description.tables],
    }
    if description.is_live:
        dataset["isLiveDataset"] = True
    if description.published is not None:
        dataset["datePublished"] = description.published.isoformat()
    if description.days is not None:
        dataset["temporalCoverage"] = "/".join(day.isoformat() for day in description.days)
    if description.address:
        dataset["url"] = description.address
    if description.licence_address is not None:
        dataset["license"] = description.licence_address
    if curator is not None:
        organisation: Json = {"@type": "sc:Organization", "name": curator.name}
        if description.contact_address is not None:
            key = "email" if description.contact_address.startswith("mailto:") else "url"
            organisation[key] = curator.contact
        dataset |= {"creator": organisation, "publisher": organisation}
        if curator.intended_use is not None:
            dataset["rai:dataUseCases"] = [curator.intended_use]
        if curator.region is not None:
            dataset["spatialCoverage"] = curator.region
    dataset["rai:dataReleaseMaintenancePlan"] = (
        f"A release for each {study.periods.every}; a published record never changes."
    )
    return json_bytes(dataset)


def _file_id(table: DescribedTable, file: DescribedFile) -> str:
    return f"{table.name}.{file.form}"


def _file_object(table: DescribedTable, file: DescribedFile) -> Json:
    """A file, cr:FileObject."""
    described: Json = {
        "@type": "cr:FileObject",
        "@id": _file_id(table, file),
        "name": _file_id(table, file),
        "description": table.title,
        "contentUrl": file.path,
        "encodingFormat": _ENCODINGS[file.form],
    }
    if file.size is not None:
        described["contentSize"] = f"{file.size} B"
    if file.sha256 is not None:
        described["sha256"] = file.sha256
    return described


def _records(table: DescribedTable) -> Json:
    """The columns of a table, cr:RecordSet, as they are in its main file."""
    fields = []
    for column in table.columns:
        description = column.label
        if column.values:
            labels = [
                str(value) if str(value) == label else f"{value} ({label})"
                for value, label in column.values[:_MOST_VALUES]
            ]
            ellipsis = ", ..." if len(column.values) > _MOST_VALUES else ""
            description = f"{description}: {', '.join(labels)}{ellipsis}"
        source = {
            "fileObject": {"@id": _file_id(table, table.main)},
            "extract": {"column": column.name},
        }
        fields.append(
            {
                "@type": "cr:Field",
                "@id": f"{table.name}/{quote(column.name, safe='')}",
                "name": column.name,
                "description": description,
                "dataType": _TYPES[column.type],
                "source": source,
            }
        )
    return {
        "@type": "cr:RecordSet",
        "@id": table.name,
        "name": table.name,
        "description": table.title,
        "field": fields,
    }


_NAMESPACE = "ddi:codebook:2_5"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def codebook(description: Description) -> bytes:
    """The codebook of all tables: a file for each, a variable per column."""
    root = Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5"})
    _document(root, description)
    _study(root, description)
    for number, table in enumerate(description.tables, 1):
        _file(root, f"F{number}", table)
    variables = _child(root, "dataDscr")
    for number, table in enumerate(description.tables, 1):
        for place, column in enumerate(table.columns, 1):
            _variable(variables, f"V{number}.{place}", f"F{number}", column)
    ElementTree.indent(root, " ")
    written: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return written


def _child(parent: Element, tag: str, text: str = "", /, **attributes: str) -> Element:
    """Adds an element; signs that XML does not have become the replacement character."""
    sound = {key: _NOT_XML.sub("\ufffd", value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, tag, sound)
    child.text = _NOT_XML.sub("\ufffd", text) or None
    return child


def _document(root: Element, description: Description) -> None:
    citation = _child(_child(root, "docDscr"), "citation")
    _child(_child(citation, "titlStmt"), "titl", f"Codebook: {description.title}")
    _child(_child(citation, "prodStmt"), "software", SOFTWARE)


def _study(root: Element, description: Description) -> None:
    """Adds the study: curator, subject, privacy and terms of use."""
    study, curator = description.study, description.study.curator
    described = _child(root, "stdyDscr")
    citation = _child(described, "citation")
    title = _child(citation, "titlStmt")
    _child(title, "titl", description.title)
    _child(title, "IDNo", study.hash, agency="stream-dp")
    if curator is not None:
        _child(_child(citation, "rspStmt"), "AuthEnty", curator.name)
        distribution = _child(citation, "distStmt")
        _child(distribution, "distrbtr", curator.name)
        contact = description.contact_address
        if contact is not None and contact.startswith("mailto:"):
            _child(distribution, "contact", curator.name, email=contact.removeprefix("mailto:"))
        elif contact is not None:
            _child(distribution, "contact", curator.name, URI=contact)
    dated = {}
    if description.published is not None:
        dated = {"date": description.published.isoformat()}
    _child(_child(citation, "verStmt"), "version", description.version, **dated)
    _child(citation, "biblCit", description.citation)
    if description.address:
        _child(citation, "holdings", URI=description.address)

    about = _child(described, "stdyInfo")
    subject = _child(about, "subject")
    for word in description.keywords:
        _child(subject, "keyword", word)
    _child(about, "abstract", description.text)
    summary = _child(about, "sumDscr")
    if description.days is not None:
        for event, day in zip(("start", "end"), description.days, strict=True):
            _child(summary, "timePrd", day.isoformat(), event=event, date=day.isoformat())
    if curator is not None and curator.region is not None:
        _child(summary, "geogCover", curator.region)
    _child(summary, "anlyUnit", study.unit)
    _child(summary, "dataKind", "synthetic data and noisy statistics")

    method = _child(described, "method")
    for name, text in privacy_rows(description.privacy):
        _child(method, "notes", text, type="privacy", subject=name)
    use = _child(_child(described, "dataAccs"), "useStmt")
    if description.licence_address is not None:
        _child(use, "conditions", f"Licence: {description.licence_address}")
    if curator is not None and curator.intended_use is not None:
        _child(use, "conditions", f"Intended use: {curator.intended_use}")
    _child(use, "disclaimer", "Synthetic records describe no real person.")


def _file(root: Element, identifier: str, table: DescribedTable) -> None:
    """Adds a table's main file."""
    described = _child(root, "fileDscr", ID=identifier, URI=table.main.path)
    text = _child(described, "fileTxt")
    _child(text, "fileName", table.main.path)
    _child(text, "fileCont", table.title)
    _child(_child(text, "dimensns"), "varQnty", str(len(table.columns)))
    _child(text, "fileType", table.main.media)


def _variable(parent: Element, identifier: str, file: str, column: DescribedColumn) -> None:
    """Adds a column, with the labels of its values. file: the identifier of its file."""
    interval = "contin" if column.type == "number" else "discrete"
    variable = _child(parent, "var", ID=identifier, name=column.name, files=file, intrvl=interval)
    _child(variable, "labl", column.label)
    if column.codes:
        invalid = _child(variable, "invalrng")
        for code in column.codes:
            _child(invalid, "item", VALUE=str(code))
    for value, label in column.values:
        category = _child(variable, "catgry")
        _child(category, "catValu", str(value))
        _child(category, "labl", label)
    _child(variable, "varFormat", type="character" if column.type == "string" else "numeric")


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
