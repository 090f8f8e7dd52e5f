"""Descriptions of everything that is published, for the catalogues of other portals."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.responses import Response

from stream_dp.errors import UserError

from ..portals.description import DescribedFile, Description, describe
from ..portals.documents import DOCUMENTS, described_series, described_tables
from ..portals.series import SERIES_MEDIA, has_series
from .downloads import FORMATS
from .public_api import state_response
from .public_state import State

METADATA = "/metadata"  # the document of portals of public data
_FIRST = "dcat.jsonld"
_NEEDS_ADDRESS = "datapackage.json"  # its paths lie below its folder, or are addresses


def add_metadata(application: FastAPI, state: State) -> None:
    """Adds the paths of descriptions to an application."""

    def answered(name: str) -> Response:
        document = DOCUMENTS.get(name)
        if document is None:
            raise UserError(f"metadata: no such document; there are {', '.join(DOCUMENTS)}")
        if name == _NEEDS_ADDRESS and not _is_known(state):
            raise UserError(
                f"{name}: states addresses of files, and this monitor does not know its own; start"
                " it with --url https://HOST"
            )
        return state_response(state, document.write(described(state)), document.media)

    @application.get(METADATA)
    def metadata() -> Response:
        """The dataset and its distributions as DCAT-AP, in JSON-LD."""
        return answered(_FIRST)

    @application.get(METADATA + "/{name}")
    def document(name: str) -> Response:
        """A description of every table: dcat.jsonld, croissant.json, datapackage.json, ddi.xml
        or registry.yaml.

        datapackage.json needs a monitor that knows its own address (`--url`).
        """
        return answered(name)


def described(state: State) -> Description:
    """The description of all tables that can be downloaded."""
    public, base = state.public, state.url if _is_known(state) else ".."
    tables = []
    for release in dict.fromkeys(r.certificate.release for r in public.published):

        def files(table: str, release: str = release) -> list[DescribedFile]:
            path = f"{base}/download/{release}/{table}"
            return [DescribedFile(f"{path}.{form}", media) for form, media in FORMATS.items()]

        tables += described_tables(public, release, None, files)
    if has_series(public):
        file = DescribedFile(f"{base}/download/series.csv", SERIES_MEDIA)
        tables.append(described_series(public, file))
    address = f"{state.url}/" if _is_known(state) else ""
    return describe(public, tables, public.published, address=address, is_live=True)


def metadata_links(state: State) -> list[tuple[str, str]]:
    """The paths and the titles of the documents that this monitor has."""
    links = [
        (f"{state.root}{METADATA}/{name}", document.title)
        for name, document in DOCUMENTS.items()
        if _is_known(state) or name != _NEEDS_ADDRESS
    ]
    if has_series(state.public):
        links.append((f"{state.root}/download/series.csv", "SDMX-CSV"))
    return links


def _is_known(state: State) -> bool:
    """Whether the monitor knows its host, not the path of the study's pages alone."""
    return bool(urlsplit(state.url).netloc)
