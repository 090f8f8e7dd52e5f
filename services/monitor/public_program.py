"""A process that reads a public log once, checks it, and answers from what it read.

    python -m stream_dp.services.monitor.public_program PUBLIC

It writes a line of JSON once it can answer, or with the reason why it cannot, and then answers in
forks of itself (`forks.py`).
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

from stream_dp.log.public import public_log

from .answering import answer_of
from .follower import fault_of
from .forks import answer_in_forks
from .limits import Application
from .public import public_pages
from .state import read_state
from .views import prepare


def _begun(source: str) -> tuple[dict[str, Any], Application | None]:
    """What is said of the log, and the application that shows it."""
    try:
        with closing(public_log(source)) as log:
            state = read_state(log)
        prepare(state)
    except Exception as error:  # whatever a log does to this program, its reader is told
        fault = fault_of(error)
        return {"fault": list(fault.lines), "refused": fault.refused}, None
    releases = len(state.public.published)
    said = {"end": asdict(state.end), "head": state.head, "releases": releases}
    return said, public_pages(state, lambda: public_log(source))


def main(source: str) -> None:
    said, application = _begun(source)
    print(json.dumps(said), flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if application is not None:
        answer: Any = partial(answer_of, application)
        answer_in_forks(answer)


if __name__ == "__main__":
    main(sys.argv[1])
