"""DCAT-AP 3: a dataset with its distributions in JSON-LD, for portals of public data."""

from __future__ import annotations

from datetime import date

from stream_dp.json_object import Json

from .description import DescribedFile, DescribedTable, Description, json_bytes, privacy_rows

_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_EU = "http://publications.europa.eu/resource/authority"
_FREQUENCIES = {
    "minute": "1MIN",
    "hour": "HOURLY",
    "day": "DAILY",
    "week": "WEEKLY",
    "month": "MONTHLY",
    "quarter": "QUARTERLY",
    "year": "ANNUAL",
    "step": "IRREG",
}
_RESOLUTIONS = {
    "minute": "PT1M",
    "hour": "PT1H",
    "day": "P1D",
    "week": "P7D",
    "month": "P1M",
    "quarter": "P3M",
    "year": "P1Y",
}


def dcat(description: Description) -> bytes:
    """The dataset, and the catalogue with its publisher if the study declares a curator."""
    curator, periods = description.study.curator, description.study.periods
    dataset: Json = {
        "@id": f"{description.address}#dataset",
        "@type": "dcat:Dataset",
        "dct:identifier": description.study.hash,
        "dct:title": _text(description.title),
        "dct:description": _text(description.text),
        "dcat:version": description.version,
        "dcat:keyword": [_text(word) for word in description.keywords],
        "dct:bibliographicCitation": description.citation,
        "dct:accessRights": _concept("access-right/PUBLIC", "dct:RightsStatement"),
        "dct:accrualPeriodicity": _concept(
            f"frequency/{_FREQUENCIES[periods.every]}", "dct:Frequency"
        ),
        "dct:provenance": [
            {"@type": "dct:ProvenanceStatement", "rdfs:label": _text(f"{name}: {text}")}
            for name, text in privacy_rows(description.privacy)
        ],
        "dcat:distribution": [
            _distribution(description, table, file)
            for table in description.tables
            for file in table.files
        ],
    }
    if periods.every in _RESOLUTIONS:
        resolution = {"@type": "xsd:duration", "@value": _RESOLUTIONS[periods.every]}
        dataset["dcat:temporalResolution"] = resolution
    if description.published is not None:
        dataset["dct:modified"] = _date(description.published)
    if description.days is not None:
        start, end = map(_date, description.days)
        interval = {"@type": "dct:PeriodOfTime", "dcat:startDate": start, "dcat:endDate": end}
        dataset["dct:temporal"] = interval
    if description.address:
        page = {"@id": description.address, "@type": "foaf:Document"}
        dataset |= {"dcat:landingPage": page}
    graph = [dataset]
    if curator is not None:
        publisher = {"@type": "foaf:Agent", "@id": "#curator", "foaf:name": _text(curator.name)}
        dataset["dct:publisher"] = {"@id": "#curator"}
        if curator.region is not None:
            location = {"@type": "dct:Location", "skos:prefLabel": _text(curator.region)}
            dataset["dct:spatial"] = location
        if description.contact_address is not None:
            key = "vcard:hasURL"
            if description.contact_address.startswith("mailto:"):
                key = "vcard:hasEmail"
            dataset["dcat:contactPoint"] = {
                "@type": "vcard:Kind",
                "vcard:fn": curator.name,
                key: {"@id": description.contact_address},
            }
        catalog = {
            "@id": f"{description.address}#catalogue",
            "@type": "dcat:Catalog",
            "dct:title": _text(f"Releases of the study {description.study.name}"),
            "dct:description": _text(f"What {curator.name} publishes of the study."),
            "dct:publisher": {"@id": "#curator"},
            "dcat:dataset": {"@id": dataset["@id"]},
        }
        graph += [publisher, catalog]
    return json_bytes({"@context": _CONTEXT, "@graph": graph})


def _distribution(description: Description, table: DescribedTable, file: DescribedFile) -> Json:
    """A file of a table, dcat:Distribution."""
    address = {"@id": file.path, "@type": "rdfs:Resource"}
    media = file.media.partition(";")[0]
    distribution: Json = {
        "@type": "dcat:Distribution",
        "dct:title": _text(f"{table.title} ({file.form})"),
        "dcat:accessURL": address,
        "dcat:downloadURL": address,
        "dcat:mediaType": {
            "@id": f"https://www.iana.org/assignments/media-types/{media}",
            "@type": "dct:MediaType",
        },
    }
    if description.licence_address is not None:
        licence = {"@id": description.licence_address, "@type": "dct:LicenseDocument"}
        distribution["dct:license"] = licence
    if file.size is not None:
        size = {"@type": "xsd:nonNegativeInteger", "@value": str(file.size)}
        distribution["dcat:byteSize"] = size
    if file.sha256 is not None:
        distribution["spdx:checksum"] = {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {
                "@id": "spdx:checksumAlgorithm_sha256",
                "@type": "spdx:ChecksumAlgorithm",
            },
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": file.sha256},
        }
    return distribution


def _text(text: str) -> Json:
    return {"@language": "en", "@value": text}


def _date(day: date) -> Json:
    return {"@type": "xsd:date", "@value": day.isoformat()}


def _concept(name: str, kind: str) -> Json:
    return {"@id": f"{_EU}/{name}", "@type": kind}
