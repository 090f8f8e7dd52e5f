"""Where reports' schemas come from: a folder of files, and a schema registry's REST interface.

A registry that does not answer is no reason to refuse a report: the process stops and says so, and
reads the same record again when it is started again.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError
from stream_dp.log.base import Unavailable
from stream_dp.population.reports import Decoder, DecoderMaker
from stream_dp.population.shapes.avro import MOST_SCHEMA, fastavro
from stream_dp.population.shapes.decoder import ShapedDecoder, ShapeReader
from stream_dp.population.shapes.schemas import Schemas, SchemaSource
from stream_dp.study.intake import Input

from .deployment import Deployment
from .secrets import secret_text

_NOT_THERE = 40403  # the registry's error code for an unknown schema id
_REFUSED = {401, 403}
_PATIENCE = 5.0  # seconds for an answer
_PAUSES = (0.5, 1.5)  # seconds before asking again


def decoder_maker(deployment: Deployment) -> DecoderMaker:
    """What makes the decoder of a deployment's reports. Raises UserError."""
    declared = deployment.run.input
    if declared.plain:
        return Decoder
    source = _source(declared, deployment.base)
    return lambda study, key: ShapedDecoder(study, key, declared, source)


def shape_reader(deployment: Deployment) -> ShapeReader | None:
    """What reads single records as plain reports; None where they are that. Raises UserError."""
    declared = deployment.run.input
    if declared.plain:
        return None
    source = _source(declared, deployment.base)
    return ShapeReader(deployment.study, declared, None if source is None else Schemas(source))


def _source(declared: Input, base: Path) -> SchemaSource | None:
    """The schemas of Avro reports; None for another format."""
    if declared.format != "avro":
        return None
    fastavro()
    sources: list[SchemaSource] = []
    if declared.schemas is not None:
        folder = base / declared.schemas
        if not folder.is_dir():
            raise UserError(f"run.input.schemas: {folder}: no such folder")
        sources.append(functools.partial(_file_schema, folder))
    if declared.registry is not None:
        sources.append(Registry(declared.registry, _authorization(declared, base)))
    return _first_of(sources)


def _first_of(sources: list[SchemaSource]) -> SchemaSource:
    def schema(number: int) -> str | None:
        texts = (source(number) for source in sources)
        return next((text for text in texts if text is not None), None)

    return schema


def _file_schema(folder: Path, number: int) -> str | None:
    path = folder / f"{number}.avsc"
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {type(error).__name__}") from None


def _authorization(declared: Input, base: Path) -> str | None:
    """The value of the header that says who asks."""
    if declared.registry_user is None:
        return None
    place = "run.input.registry_password"
    password = secret_text(place, declared.registry_password or {}, base)
    pair = f"{declared.registry_user}:{password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


class Registry:
    """A schema registry, asked over its REST interface.

    url: of the interface.
    authorization: a header's value, or None.
    """

    def __init__(
        self,
        url: str,
        authorization: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url, self._sleep = url, sleep
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if authorization is not None:
            self._headers["Authorization"] = authorization
        # A redirection could take the password elsewhere.
        self._open = urllib.request.build_opener(_NoRedirection).open

    def __call__(self, number: int) -> str | None:
        """The text of an Avro schema; None where the registry knows none of that id, and for one
        that is of another kind or refers to others.

        Raises Unavailable where it does not answer, UserError where it refuses.
        """
        for pause in (*_PAUSES, None):
            try:
                return self._ask(number)
            except _NoAnswer as fault:
                why = str(fault)
            if pause is not None:
                self._sleep(pause)
        raise Unavailable(
            f"schema registry {self._url}: {why} when asked for schema {number}; reports wait in"
            " the log, and none is refused for it: start again when it answers"
        )

    def _ask(self, number: int) -> str | None:
        request = urllib.request.Request(f"{self._url}/schemas/ids/{number}", headers=self._headers)
        try:
            with self._open(request, timeout=_PATIENCE) as response:
                answer = _answer(response.read(MOST_SCHEMA + 1))
        except urllib.error.HTTPError as error:
            with error:
                unknown = error.code == http.HTTPStatus.NOT_FOUND and _is_unknown(error)
            if unknown:
                return None
            if error.code in _REFUSED:
                raise UserError(
                    f"schema registry {self._url}: it refuses this user ({error.code}); set"
                    " registry_user and registry_password in [run.input]"
                ) from None
            raise _NoAnswer(f"answers {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _NoAnswer(f"no answer ({type(error).__name__})") from None
        if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
            return None
        text = answer.get("schema")
        if not isinstance(text, str):
            raise _NoAnswer("answers without a schema")
        return text


class _NoAnswer(Exception):
    """The registry did not answer as one does."""


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _answer(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises _NoAnswer."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if len(data) > MOST_SCHEMA or not isinstance(answer, dict):
        raise _NoAnswer("answers with something else")
    return answer


def _is_unknown(error: urllib.error.HTTPError) -> bool:
    """Whether an answer says that there is no such schema, and not that there is no such page."""
    try:
        return _answer(error.read(MOST_SCHEMA)).get("error_code") == _NOT_THERE
    except (_NoAnswer, OSError, http.client.HTTPException):
        return False
