"""Entries of a study in catalogues: DCAT-AP 3, and the Differential Privacy Deployments Registry.

A portal of public data takes a dataset with its distributions in JSON-LD. The registry (OpenDP)
takes a YAML file for each deployment, with the fields of `deployments-schema.yaml`. JSON is YAML
too, so the entry is written as JSON, as a draft. Texts that nobody has declared are left empty for
the curator.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date
from fractions import Fraction

from stream_dp.json_object import Json

from .description import (
    SOFTWARE,
    DescribedFile,
    DescribedTable,
    Description,
    json_bytes,
    privacy_rows,
)

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


_NO_DATE = "1900-01-01"  # the registry's template has it for a date to fill in
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # raw in no YAML
_SURROGATE = re.compile("[\ud800-\udfff]")


def registry_entry(description: Description) -> bytes:
    """The entry of a public log or of a release, with the guarantee of the whole study."""
    text = json.dumps(_entry(description), indent=1, ensure_ascii=False)
    text = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", _SURROGATE.sub("?", text))
    return f"{text}\n".encode()


def _entry(description: Description) -> Json:
    slug = re.sub("[^a-z0-9]+", "-", description.name.lower()).strip("-")
    published = description.published
    year = "" if published is None else f"-{published.year}"
    return {
        "url_slug": f"{slug}{year}",
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": _basic(description),
            **_guarantee(description),
            "deployment_model": _model(description),
            "accounting": {
                "post_processing": "Synthetic records and estimates are computed from the noisy"
                " measurements alone, and cost nothing.",
                "composition": "Charges in rho add up over all releases and periods, and no charge"
                " is refunded. Releases of disjoint strata of one attribute cost the largest of"
                " the strata's sums.",
            },
            "implementation": {"mechanisms": _mechanisms(description)},
            "administrative": _administrative(description),
        },
    }


def _basic(description: Description) -> Json:
    curator, published = description.study.curator, description.published
    return {
        "name": description.title,
        "data_curators": ["" if curator is None else curator.name],
        "intended_use": (curator and curator.intended_use) or "",
        "data_product_type": "Synthetic data",
        "data_product_region": (curator and curator.region) or "",
        "description": description.text,
        "publication_date": _NO_DATE if published is None else published.isoformat(),
    }


def _guarantee(description: Description) -> Json:
    study, facts = description.study, description.privacy
    at_most = "at most " if study.periods.open else ""
    attributes = ", ".join(study.attributes) or "none"
    return {
        "dp_variant": {
            "variant_name": "Zero-concentrated DP",
            "data_domain": f"Histories of {at_most}{study.periods.count} periods of one"
            f" {study.unit} each, with the attributes {attributes}.",
            "unprotected_quantities": facts.invariants,
        },
        "privacy_loss": {
            "privacy_unit": f"one {facts.unit}, with its whole history",
            "privacy_unit_details": facts.guarantee,
            "privacy_parameters": {
                "epsilon": float(facts.epsilon_total),
                "delta": _not_below(facts.delta),
                "rho": _not_below(facts.rho_total),
            },
            "privacy_parameters_details": f"At most, for all releases together. So far rho is"
            f" {facts.rho_spent}, and epsilon {facts.epsilon_spent} at delta {facts.delta}. The"
            " guarantee is in rho; epsilon at delta follows from it.",
        },
    }


def _model(description: Description) -> Json:
    study = description.study
    is_repeated = study.periods.count > 1
    return {
        "model_name": "Central",
        "actors": "The curator holds the reports and adds the noise, and is trusted. Whoever has"
        " only what is published is inside the guarantee, whatever else they know.",
        "release_type": "Many releases" if is_repeated else "One release",
        "release_type_details": "The budget is fixed before the first report and covers all"
        f" releases of {study.periods.count} periods. It is never renewed.",
        "data_source_type": "Dynamic" if is_repeated else "Static",
        "access_type": "Non-interactive",
    }


def _mechanisms(description: Description) -> str:
    facts = description.privacy
    lines = [*facts.mechanisms, f"Noise: {facts.noise}", f"Code: {SOFTWARE}"]
    return "\n".join(f"- {line}" for line in lines)


def _administrative(description: Description) -> Json:
    curator, contact = description.study.curator, description.contact_address
    sources = [line for line in (description.address, contact) if line]
    return {
        "sources": "\n".join(f"- {line}" for line in sources),
        "notes": description.citation,
        "registry_authors": ["" if curator is None else curator.name],
    }


def _not_below(number: Fraction) -> float:
    """The float nearest to an exact number whose decimal text is not below the number."""
    value = float(number)
    return value if Fraction(repr(value)) >= number else math.nextafter(value, math.inf)
