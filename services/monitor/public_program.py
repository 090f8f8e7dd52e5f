"""The program of processes that read and check a public log once, and then answer.

    python -m stream_dp.services.monitor.public_program

The program forks for every order (`zygote.py`): PUBLIC KEY HEAD URL MAP STATEMENT... KEY and
HEAD are what the log must have, empty for anything. URL is where the study's pages are public. MAP
is a file with outlines of regions, empty for none. A STATEMENT is a file with a signed statement of
an audit. The fork writes a line of JSON with the state or the fault of the log, and then answers
questions in forks (`forks.py`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

import pyarrow as pa

from stream_dp.json_object import Json
from stream_dp.log.open_public import public_log

from .answering import answer_of
from .follower import fault_of
from .forks import answer_in_forks
from .limits import Application
from .public_pages import public_pages
from .public_state import read_state
from .study_summary import study_summary
from .views import prepare
from .zygote import fork_for_orders


def _read(
    source: str, key: str, head: str, url: str, outlines: str, statements: Sequence[str]
) -> tuple[Json, Application | None]:
    """Reads a log; returns the first line to write, and the application, or None for a fault."""
    try:
        with closing(public_log(source)) as log:
            state = read_state(log, url, statements, outlines)
        state.public.require(key=key or None, head=head or None)
        prepare(state)
    except Exception as error:  # every fault of a log is reported to the reader
        fault = fault_of(error)
        return {"fault": list(fault.lines), "refused": fault.refused}, None
    releases = len(state.public.published)
    message = {"end": asdict(state.end), "head": state.head, "releases": releases}
    message["about"] = study_summary(state).as_dict()
    return message, public_pages(state, lambda: public_log(source))


def serve_state(
    source: str, key: str, head: str, url: str, outlines: str, *statements: str
) -> None:
    """Reads a log, writes the first line, and answers questions until the end of the input."""
    message, application = _read(source, key, head, url, outlines, statements)
    print(json.dumps(message), flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if application is not None:
        answer: Any = partial(answer_of, application)
        answer_in_forks(answer)


def _load() -> None:
    """Loads what every fork needs, so that the forks share its memory."""
    import_module("stream_dp.log.sqlite")
    pa.array([0])  # pyarrow looks for pandas at the first array


if __name__ == "__main__":
    _load()
    fork_for_orders(serve_state)
