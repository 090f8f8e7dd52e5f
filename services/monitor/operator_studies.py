"""The operator's monitor of several studies: a page of all, and the pages of each. Confidential."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response

from stream_dp.errors import UserError

from ..process.access import Access
from .limits import Application, Limited
from .live import Live
from .operator import handle_faults, operator_monitor
from .operator_entry import OperatorEntry, confidential_page
from .operator_facts import Watch
from .operator_overview import Overview
from .public_sources import named_once
from .study_addresses import StudyAddresses, study_url


def study_files(arguments: Sequence[str]) -> dict[str, Path]:
    """The study files of a command line by name; a folder stands for its files .toml.

    Raises UserError.
    """
    return named_once((file.stem, file) for file in _files(arguments))


def _files(arguments: Sequence[str]) -> Iterator[Path]:
    for argument in map(Path, arguments):
        if argument.is_dir():
            files = sorted(argument.glob("*.toml"))
            if not files:
                raise UserError(f"{argument}: has no study file, whose name ends with .toml")
            yield from files
        else:
            yield argument


def operator_studies(
    studies: Mapping[str, Path], access: Access, overview: Overview
) -> Application:
    """The operator's application of several studies, with limits.

    A study whose state cannot be read is listed with the reason.
    """
    forms: set[str] = set()
    applications: dict[str, Application] = {}
    for name, study in studies.items():
        watch = Watch(study)
        watch.start()
        root = study_url("", name)
        applications[name] = operator_monitor(study, access, watch, root=root, forms=forms)
    entry = OperatorEntry(_front(overview), access, "")
    front = Limited(entry, {"GET", "HEAD", "POST"}, endless={"/events"})
    return StudyAddresses(front, applications)


def _front(overview: Overview) -> FastAPI:
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handle_faults(application, "")
    live = Live(lambda: {"head": overview.head})

    @application.get("/")
    def studies() -> Response:
        return confidential_page(
            "operator_studies.html",
            rows=overview.rows(),
            awaited=overview.awaited,
            now=time.time(),
            address=lambda name: f"{study_url('', name)}/",
            head=overview.head,
        )

    @application.get("/events")
    async def events() -> Response:
        return live.viewer()

    return application
