"""Schemas of reports, from a folder of files or from a schema registry's REST interface.

Without an answer of the registry the process stops, and reads the same record after a restart.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from stream_dp.errors import UserError
from stream_dp.log.log import Unavailable
from stream_dp.population.shapes.record_contents import (
    MOST_SCHEMA,
    AvroSchema,
    SchemaSource,
    UnknownType,
    fastavro,
)
from stream_dp.study.run_settings import Input

from ..storage.deployment import secret_text

# The registry's codes for what it does not know: a schema id; a subject or a version of it.
_NO_ID = {40403}
_NO_VERSION = {40401, 40402}
_MOST_TEXTS = 100  # of a schema with those that it refers to
_MOST_ANSWER = 8 * MOST_SCHEMA  # bytes; a character of a schema takes six at most
_UNUSABLE: tuple[str, ...] = ()  # the texts of a schema beyond a limit
_REFUSED = {401, 403}
_REFERENCE = ("subject", "version")
_PATIENCE = 10.0  # seconds for a schema with all that it refers to
_PAUSES = (0.5, 1.5)  # seconds before asking again


def schema_source(declared: Input, base: Path) -> SchemaSource | None:
    """The source of Avro schemas. None for other formats."""
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
    def schema(number: int) -> tuple[str, ...] | None:
        several = (source(number) for source in sources)
        return next((texts for texts in several if texts is not None), None)

    return schema


def _file_schema(folder: Path, number: int) -> tuple[str, ...] | None:
    """The schema of `ID.avsc`, after the schemas in `NAME.avsc` of types without a definition.

    None for a missing file, no texts for a schema beyond a limit.
    """
    text = _file_text(folder / f"{number}.avsc")
    texts = [] if text is None else [text]
    while texts:
        if len(texts) > _MOST_TEXTS or sum(map(len, texts)) > MOST_SCHEMA:
            return _UNUSABLE
        try:
            AvroSchema(*texts)
        except UnknownType as unknown:
            if re.fullmatch(r"[A-Za-z0-9_.]+", unknown.name) is None:
                break
            text = _file_text(folder / f"{unknown.name}.avsc")
            if text is None:
                return None
            texts.insert(unknown.place, text)
        except ValueError:
            break
        else:
            break
    return tuple(texts) or None


def _file_text(path: Path) -> str | None:
    """The beginning of a file, enough to see that it is too long."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MOST_SCHEMA + 1)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {type(error).__name__}") from None


def _authorization(declared: Input, base: Path) -> str | None:
    """The header with the user's name and password."""
    if declared.registry_user is None:
        return None
    key_name = "run.input.registry_password"
    password = secret_text(key_name, declared.registry_password or {}, base)
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
        # A redirection could carry the password to another host.
        self._open = urllib.request.build_opener(_NoRedirection).open

    def __call__(self, number: int) -> tuple[str, ...] | None:
        """The text of an Avro schema, after the texts of its references.

        None if the registry lacks the schema or a reference, no texts for another kind of schema or
        one beyond a limit. Raises Unavailable for a registry without an answer, UserError for a
        refusal.
        """
        for pause in (*_PAUSES, None):
            try:
                return self._in_time(number)
            except _Unusable:
                return _UNUSABLE
            except _NoAnswer as fault:
                why = str(fault)
            if pause is not None:
                self._sleep(pause)
        raise Unavailable(
            f"schema registry {self._url}: {why} when asked for schema {number}; reports wait in"
            " the log, and none is refused for it: start again when it answers"
        )

    def _in_time(self, number: int) -> tuple[str, ...] | None:
        """The texts of a schema, or _NoAnswer after _PATIENCE seconds.

        A time-out of a socket begins again with every byte, so that a registry could drip.
        """
        outcomes = queue.SimpleQueue[Callable[[], tuple[str, ...] | None]]()

        def ask() -> None:
            try:
                texts = self._texts(number)
            except Exception as error:
                outcomes.put(functools.partial(_raise, error))
            else:
                outcomes.put(lambda: texts)

        threading.Thread(target=ask, daemon=True).start()
        try:
            outcome = outcomes.get(timeout=_PATIENCE)
        except queue.Empty:
            raise _NoAnswer(f"no whole answer in {_PATIENCE:g} s") from None
        return outcome()

    def _texts(self, number: int) -> tuple[str, ...] | None:
        """Raises _Unusable, _NoAnswer, UserError."""
        texts: dict[str, str | None] = {}  # by path; None for one whose references are being read
        lengths: list[int] = []

        def add(path: str, unknown: set[int]) -> bool:
            if path in texts:
                if texts[path] is None:
                    raise _Unusable  # it refers to itself
                return True
            answer = self._ask(path, unknown)
            if answer is None:
                return False
            if answer.get("schemaType", "AVRO") != "AVRO":
                raise _Unusable
            text = answer.get("schema")
            if not isinstance(text, str):
                raise _NoAnswer("answers without a schema")
            texts[path] = None
            lengths.append(len(text))
            if len(lengths) > _MOST_TEXTS or sum(lengths) > MOST_SCHEMA:
                raise _Unusable
            if not all(add(p, _NO_VERSION) for p in _references(answer)):
                return False
            del texts[path]  # so that it comes after those that it refers to
            texts[path] = text
            return True

        if not add(f"/schemas/ids/{number}", _NO_ID):
            return None
        return tuple(text for text in texts.values() if text is not None)

    def _ask(self, path: str, unknown: set[int]) -> dict[str, object] | None:
        """An answer; None for an answer with a code in `unknown`.

        Raises _Unusable, _NoAnswer, UserError.
        """
        request = urllib.request.Request(f"{self._url}{path}", headers=self._headers)
        try:
            with self._open(request, timeout=_PATIENCE) as response:
                data = response.read(_MOST_ANSWER + 1)
                if len(data) > _MOST_ANSWER and "json" in response.headers.get_content_type():
                    raise _Unusable
                return _answer(data)
        except urllib.error.HTTPError as error:
            with error:
                code = _code(error) if error.code == http.HTTPStatus.NOT_FOUND else None
            if code in unknown:
                return None
            if error.code in _REFUSED:
                raise UserError(
                    f"schema registry {self._url}: it refuses this user ({error.code}); set"
                    " registry_user and registry_password in [run.input]"
                ) from None
            raise _NoAnswer(f"answers {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _NoAnswer(f"no answer ({type(error).__name__})") from None


class _NoAnswer(Exception):
    """The registry gave no usable answer."""


class _Unusable(Exception):
    """The schema can never be used: another kind of schema, or one beyond a limit."""


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _raise(error: Exception) -> NoReturn:
    raise error


def _answer(data: bytes) -> dict[str, object]:
    """A JSON object. Raises _NoAnswer."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if len(data) > _MOST_ANSWER or not isinstance(answer, dict):
        raise _NoAnswer("answers with something else")
    return answer


def _references(answer: dict[str, object]) -> Iterator[str]:
    """The paths of a schema's references, as registered. Raises _NoAnswer."""
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise _NoAnswer("answers with something else")
    for entry in references:
        subject, version = (entry.get(k) if isinstance(entry, dict) else None for k in _REFERENCE)
        if not isinstance(subject, str) or not isinstance(version, int):
            raise _NoAnswer("answers with something else")
        # One that was deleted since is still what its records were written with.
        yield f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}?deleted=true"


def _code(error: urllib.error.HTTPError) -> int | None:
    """The registry's code for an unknown schema; None for an unknown page."""
    try:
        code = _answer(error.read(MOST_SCHEMA)).get("error_code")
    except (_NoAnswer, OSError, http.client.HTTPException):
        return None
    return code if isinstance(code, int) else None
