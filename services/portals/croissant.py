"""Croissant 1.0 (MLCommons): a description of tables in JSON-LD, with its RAI vocabulary."""

from __future__ import annotations

from urllib.parse import quote

from stream_dp.json_object import Json

from .description import (
    SOFTWARE,
    DescribedFile,
    DescribedTable,
    Description,
    json_bytes,
    privacy_rows,
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
            _file(table, file) for table in description.tables for file in table.files
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


def _file(table: DescribedTable, file: DescribedFile) -> Json:
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
