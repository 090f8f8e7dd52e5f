"""Downloads: tables of releases as files in CSV, Parquet, Arrow or JSON, and their descriptions.

The monitor keeps no panels, so a panel is read again from the public log. A panel with too many
cells is refused, with the command that exports the panel. The descriptions are for the catalogues
of other portals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from fastapi import FastAPI
from fastapi.responses import Response

from stream_dp.client import PublicLog
from stream_dp.errors import NotThere, UserError
from stream_dp.log import open_log
from stream_dp.log.log import Log, Record
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from ..portals.description import DescribedFile, Description, describe
from ..portals.documents import DOCUMENTS, described_series, described_tables
from ..portals.release_tables import (
    PANEL,
    SERIES_MEDIA,
    has_series,
    release_table,
    tables_of,
    write_tables,
)
from .public_api import file_path, state_response
from .public_state import State

METADATA = "/metadata"  # the document of portals of public data
_FIRST = "dcat.jsonld"
_NEEDS_ADDRESS = "datapackage.json"  # its paths lie below its folder, or are addresses


def add_metadata(application: FastAPI, state: State) -> None:
    """Adds the paths of descriptions to an application."""

    def answered(name: str) -> Response:
        document = DOCUMENTS.get(name)
        if document is None:
            raise NotThere(f"metadata: no such document; there are {', '.join(DOCUMENTS)}")
        if name == _NEEDS_ADDRESS and not _is_known(state):
            raise NotThere(
                f"{name}: states addresses of files, and this monitor does not know its own; start"
                " it with --url https://HOST"
            )
        return state_response(state, document.write(described(state)), document.media)

    @file_path(application, METADATA, DOCUMENTS[_FIRST].media)
    async def metadata() -> Response:
        """The dataset and its distributions as DCAT-AP, in JSON-LD."""
        return answered(_FIRST)

    @file_path(
        application, METADATA + "/{name}", *(document.media for document in DOCUMENTS.values())
    )
    async def document(name: str) -> Response:
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


FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "json": "application/json",
}
MOST_CELLS = 200_000_000  # of a panel, which takes as many bytes of memory
_RECORDS = 20  # of one read of the log


def write_download(
    state: State,
    open_log: Callable[[], Log],
    *,
    name: str,
    table: str,
    form: str,
    period: str | None,
    out: Path,
) -> None:
    """Writes a table of a release to a file. Raises UserError, LogError.

    table: one of `release_tables.tables_of`.
    form: one of FORMATS.
    period: the last period of a panel, or the period of other tables; None for the latest.
    """
    if table not in tables_of(state.public, name) or form not in FORMATS:
        raise NotThere(f"release '{name}': has no table '{table}' as '{form}'")
    if table == PANEL:
        tables = _panel(state, open_log, name, period)
    else:  # in the memory of the monitor
        tables = iter([release_table(state.public, name, table, period)])
    write_tables(out, {table: tables}, suffix=f".{form}")


def write_log(open_source: Callable[[], Log], out: Path) -> None:
    """Writes the public log to a new SQLite file. Raises LogError."""
    url = f"sqlite:{out.name}"
    with closing(open_source()) as source, closing(open_log(url, out.parent, public=True)) as copy:
        copy.create({RELEASES: 1})
        position, at_end = 0, False
        while not at_end:
            batch = source.read(RELEASES, {0: position}, _RECORDS, 0)
            position, at_end = batch.next[0], batch.at_end
            copy.append(
                Record(RELEASES, r.value, r.key, r.headers or (), partition=0, time=r.time)
                for r in batch.records
            )


def _panel(
    state: State, open_log: Callable[[], Log], name: str, period: str | None
) -> Iterator[pa.Table]:
    """The panel up to a period, read from the log again. Raises UserError for a large one."""
    last = state.public.release_at(name, period).certificate
    columns = last.number - state.public.study.span(state.public.study.release(name))[0] + 1
    if last.rows * columns > MOST_CELLS:
        raise UserError(
            f"release '{name}': {last.rows} rows of {columns} periods are too many to download"
            f" here; 'stream-dp export PUBLIC {name} panel.parquet' writes them"
        )

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        return certificate.release == name and table == PANEL and certificate.number <= last.number

    with closing(open_log()) as log:
        public = PublicLog(log, keep)
    return public.panel(name, last.period).tables()
