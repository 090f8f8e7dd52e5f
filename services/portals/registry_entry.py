"""Differential Privacy Deployments Registry (OpenDP): the entry of a study, as a draft.

The registry takes a YAML file for each deployment, with the fields of `deployments-schema.yaml`.
JSON is YAML too, so the entry is written as JSON. Texts that nobody has declared are left empty for
the curator.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

from stream_dp.json_object import Json

from .description import SOFTWARE, Description

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
