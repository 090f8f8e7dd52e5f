"""The program of a process that reads and checks a public log once, and then answers.

    python -m stream_dp.services.monitor.public_program PUBLIC [KEY HEAD URL]

KEY and HEAD are what the log must have, empty for anything. URL is where the monitor is public.
The program writes a line of JSON with the state or the fault of the log, and then answers questions
in forks (`forks.py`).
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

from stream_dp.json_object import Json
from stream_dp.log.open_public import public_log

from .answering import answer_of
from .follower import fault_of
from .forks import answer_in_forks
from .limits import Application
from .public_pages import public_pages
from .public_state import read_state
from .views import prepare


def _read(source: str, key: str, head: str, url: str) -> tuple[Json, Application | None]:
    """Reads a log; returns the first line to write, and the application, or None for a fault."""
    try:
        with closing(public_log(source)) as log:
            state = read_state(log, url)
        state.public.require(key=key or None, head=head or None)
        prepare(state)
    except Exception as error:  # every fault of a log is reported to the reader
        fault = fault_of(error)
        return {"fault": list(fault.lines), "refused": fault.refused}, None
    releases = len(state.public.published)
    message = {"end": asdict(state.end), "head": state.head, "releases": releases}
    return message, public_pages(state, lambda: public_log(source))


def main(source: str, key: str = "", head: str = "", url: str = "") -> None:
    message, application = _read(source, key, head, url)
    print(json.dumps(message), flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if application is not None:
        answer: Any = partial(answer_of, application)
        answer_in_forks(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
