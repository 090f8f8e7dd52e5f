"""The draft for the registry of deployments: its schema's fields, filled from public logs alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import yaml
from kit.described_logs import CURATOR, described_messages
from kit.json_schemas import draft
from kit.kinds_of_releases import published
from kit.monitors import publish

from stream_dp.client import PublicLog
from stream_dp.client import open as open_public
from stream_dp.services.portals.description import describe
from stream_dp.services.portals.documents import DOCUMENTS
from stream_dp.study.families import Kind

TEXT: dict[str, object] = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


def table(required: str = "", **fields: object) -> dict[str, object]:
    """An object with these keys and no other."""
    return {
        **{"type": "object", "additionalProperties": False},
        **{"required": required.split(), "properties": fields},
    }


def one_of(*values: object) -> dict[str, object]:
    return {"enum": list(values)}


# The fields of opendp/deployments-registry-data, schemas/deployments-schema.yaml.
SCHEMA = table(
    "url_slug status tier deployment",
    url_slug=TEXT,
    status=one_of("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    tier=one_of(1, 2, 3),
    deployment=table(
        "basic",
        basic=table(
            "name data_curators description intended_use data_product_type data_product_region"
            " publication_date",
            name=TEXT,
            data_curators=TEXTS,
            intended_use=TEXT,
            data_product_type=one_of(
                *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
                *("Interactive API", "SQL queries"),
            ),
            data_product_region=TEXT,
            description=TEXT,
            publication_date={"type": "string", "format": "date"},
            data_product_sector=TEXT,
        ),
        dp_variant=table(
            variant_name=one_of(
                *("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")
            ),
            data_domain=TEXT,
            unprotected_quantities=TEXT,
        ),
        privacy_loss=table(
            privacy_unit=TEXT,
            privacy_unit_details=TEXT,
            privacy_parameters=table(
                epsilon={"type": "number"},
                delta={"type": ["number", "string"]},
                rho={"type": "number"},
            ),
            privacy_parameters_details=TEXT,
        ),
        deployment_model=table(
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            model_name_details=TEXT,
            actors=TEXT,
            release_type=one_of("One release", "Many releases"),
            release_type_details=TEXT,
            data_source_type=one_of("Static", "Dynamic"),
            data_source_type_details=TEXT,
            access_type=one_of("Interactive", "Non-interactive"),
            access_type_details=TEXT,
        ),
        accounting=table(post_processing=TEXT, composition=TEXT),
        implementation=table(
            preprocessing_and_hyperparameter_tuning=TEXT, mechanisms=TEXT, justification=TEXT
        ),
        administrative=table("registry_authors", sources=TEXT, notes=TEXT, registry_authors=TEXTS),
    ),
)


def entry_of(public: PublicLog) -> Any:
    document = DOCUMENTS["registry.yaml"].write(describe(public, [], public.published))
    entry = yaml.safe_load(document)
    checks = draft("7", SCHEMA, formats=True)
    assert [error.message for error in checks.iter_errors(entry)] == []
    return entry


def texts(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, str):
        yield node


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_fills_an_entry_of_the_schema(kind: Kind) -> None:
    public = PublicLog(published(kind))
    deployment = entry_of(public)["deployment"]
    study, certificate = public.study, public.published[-1].certificate
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    for name, declared in (("rho", study.rho), ("delta", study.delta)):
        written = Fraction(str(parameters[name]))
        assert declared <= written <= declared * (1 + Fraction(1, 10**15))
    assert str(parameters["delta"]) == "1e-06"
    assert str(parameters["epsilon"]) == str(float(certificate.epsilon_total))
    assert certificate.mechanism in deployment["implementation"]["mechanisms"]
    assert deployment["privacy_loss"]["privacy_unit_details"] == certificate.guarantee
    assert deployment["dp_variant"]["unprotected_quantities"] == certificate.invariants
    # Nobody has declared a curator: the curator's texts are left to be filled in.
    basic = deployment["basic"]
    assert basic["data_curators"] == [""]
    assert (basic["intended_use"], basic["data_product_region"]) == ("", "")


def test_the_curator_and_bad_texts_come_through(tmp_path: Any) -> None:
    path = tmp_path / "bad-public.db"
    publish(path, described_messages())
    entry = entry_of(open_public(f"sqlite:{path}"))
    basic = entry["deployment"]["basic"]
    assert basic["data_curators"] == [CURATOR["name"]]
    assert basic["intended_use"] == CURATOR.get("intended_use", "")
    assert basic["data_product_region"] == CURATOR.get("region", "")
    assert all(isinstance(text, str) for text in texts(entry))
