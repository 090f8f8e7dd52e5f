"""The program of processes that read and check a public log once, and then answer.

    python -m stream_dp.services.monitor.public_program

The program forks for every order (`forks.py`): PUBLIC KEY HEAD URL MAP STATEMENT... KEY and HEAD
are what the log must have, empty for anything. URL is where the study's pages are public. MAP is a
file with outlines of regions, empty for none. A STATEMENT is a file with a signed statement of an
audit. The fork writes a line of JSON with the state or the fault of the log, and then answers
questions in forks (`forks.py`). A question is a request to an ASGI application, which is called
without a server. The list of studies shows a summary of each study, which has the words by which a
search finds the study.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode

import pyarrow as pa

from stream_dp.json_object import Json
from stream_dp.log import public_log
from stream_dp.study import Study

from .charts import cut
from .client_limits import Application, Message
from .default_questions import default_query
from .follower import fault_of
from .forks import Work, answer_in_forks, fork_for_orders
from .public_pages import public_pages
from .public_state import State, read_state
from .render import compile_templates
from .views import prepare

# Characters and numbers at most: a log is written by anybody, and a list holds many of them.
_DESCRIPTION, _UNIT, _WORDS, _RELEASES = 300, 60, 4000, 12


def study_summary(state: State) -> Json:
    """What a list shows of a state's study.

    releases: the names of published releases.
    last: the period of the last publication; empty before the first.
    epsilon: spent so far, in decimals.
    simulated: whether the noise is seeded, so that nothing is private.
    words: what a search looks through, casefolded.
    """
    public, study = state.public, state.public.study
    certificates = [release.certificate for release in public.published]
    names = list(dict.fromkeys(certificate.release for certificate in certificates))
    spent = float(certificates[-1].epsilon_spent) if certificates else 0.0
    return {
        "study": study.name,
        "description": cut(" ".join(study.description.split()), _DESCRIPTION),
        "unit": cut(study.unit, _UNIT),
        "releases": names[:_RELEASES],
        "last": certificates[-1].period if certificates else "",
        "epsilon": f"{spent:.3f}",
        "simulated": state.simulated,
        "words": " ".join(_words(study)).casefold()[:_WORDS],
    }


def _words(study: Study) -> Iterator[str]:
    """The declared texts of a study, and last the one without a limit."""
    yield from (study.name, study.unit)
    for name, attribute in study.attributes.items():
        yield from (name, attribute.label or "")
    yield from (release.name for release in (*study.releases, *(study.batches or ())))
    yield study.description


def answer_of(application: Application, question: Work) -> Work:
    """Calls an application.

    question: `method`, `path` and `query`, with the body of a form.

    Returns `status` and `headers`, with the body or an open file with the body.
    """
    request = question.data
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request["method"],
        "scheme": "http",
        "path": request["path"],
        "raw_path": b"",
        "query_string": request["query"].encode("latin-1"),
        "root_path": "",
        "headers": [],
        "extensions": {"http.response.pathsend": {}},
    }
    response: Json = {}
    body: list[bytes] = []
    files: list[IO[bytes]] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": question.body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in message["headers"]]
            response.update(status=message["status"], headers=headers)
        elif message["type"] == "http.response.pathsend":
            files.append(Path(message["path"]).open("rb"))  # noqa: SIM115
        else:
            body.append(message.get("body", b""))

    async def run() -> None:
        await application(scope, receive, send)

    try:
        # The application waits for nothing, and an event loop would cost every fork its memory.
        with suppress(StopIteration):
            run().send(None)
            raise AssertionError("an application over a state waits for nothing")
    except Exception:
        if not response:
            raise
        traceback.print_exc()  # the application has answered that it failed
    return Work(response, b"".join(body), files[0] if files else None)


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
    message["about"] = study_summary(state)
    application = public_pages(state, lambda: public_log(source))
    _ask_first(application, state)
    return message, application


def _ask_first(application: Application, state: State) -> None:
    """Asks a question about each release, so that forks inherit what every answer needs."""
    public = state.public
    for name in dict.fromkeys(published.certificate.release for published in public.published):
        page = "release" if public.study.batch(name) is None else "data"
        query = urlencode({"q": default_query(public, name)})
        asked = {"method": "GET", "path": f"/{page}/{quote(name, safe='')}", "query": query}
        answer_of(application, Work(asked))


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


class _WithoutPandas:
    """Finds no pandas. pyarrow would load it at the first array, and every fork would map it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _load() -> None:
    """Loads the modules of all forks, so that the forks share memory."""
    for module in ("stream_dp.log.sqlite", "scipy.linalg", "scipy.sparse", "scipy.special"):
        import_module(module)
    sys.meta_path.insert(0, _WithoutPandas)
    pa.array([0])  # pyarrow looks for pandas once
    sys.meta_path.remove(_WithoutPandas)
    compile_templates()


if __name__ == "__main__":
    _load()
    fork_for_orders(serve_state)
