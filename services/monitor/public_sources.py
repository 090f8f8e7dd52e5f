"""The public logs of a monitor's command line, and the addresses of their studies' pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from stream_dp.errors import UserError
from stream_dp.log import address
from stream_dp.study.field_types import NAME_PATTERN

from .client_limits import Application, Message, Receive, Send
from .render import STUDIES


def study_url(url: str, name: str) -> str:
    """The address that a study's pages begin with. url: the monitor's, or empty."""
    return f"{url}{STUDIES}{name}"


class StudyAddresses:
    """An application that gives each study's requests to the application of the study.

    front: answers all other requests.
    studies: applications by name; they see paths without the prefix.
    """

    def __init__(self, front: Application, studies: Mapping[str, Application]) -> None:
        self._front, self._studies = front, dict(studies)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        name, slash, rest = path.removeprefix(STUDIES).partition("/")
        if path.startswith(STUDIES) and name in self._studies:
            await self._studies[name]({**scope, "path": slash + rest or "/"}, receive, send)
        else:
            await self._front(scope, receive, send)


Source = TypeVar("Source", str, Path)
MOST_STUDIES = 100  # of one monitor: each takes a process
_PUBLIC = "-public.db"  # how the names of public logs end; a confidential log may lie beside


def is_folder(source: str) -> bool:
    """Whether an argument is a folder of public logs, not the address of one."""
    return ":" not in source and Path(source).is_dir()


def public_sources(arguments: Sequence[str]) -> dict[str, str]:
    """The addresses of public logs by the name of their study's address.

    A folder stands for its files that end with -public.db. The name is that of the file without
    this ending, or the prefix of a cluster's topics. It follows from the address, so that a study
    has one even if its log cannot be read. Raises UserError.
    """
    return named_once((_name(source), source) for source in _addresses(arguments))


def named_once(sources: Iterable[tuple[str, Source]]) -> dict[str, Source]:
    """Sources by the name of their study's address. Raises UserError for names that cannot be."""
    named: dict[str, Source] = {}
    for name, source in sources:
        if not re.fullmatch(NAME_PATTERN, name):
            raise UserError(
                f"{source}: no address follows from '{name}'; it needs letters and digits"
            )
        if name in named:
            raise UserError(f"monitor: {named[name]} and {source} are both called '{name}'")
        named[name] = source
    if len(named) > MOST_STUDIES:
        raise UserError(f"monitor: {len(named)} studies; one monitor serves {MOST_STUDIES} at most")
    return named


def _addresses(arguments: Sequence[str]) -> Iterator[str]:
    """The addresses of public logs, with the logs of folders listed. Raises UserError."""
    for source in arguments:
        if is_folder(source):
            files = sorted(Path(source).glob(f"*{_PUBLIC}"))
            if not files:
                raise UserError(f"{source}: has no file whose name ends with {_PUBLIC}")
            yield from (f"sqlite:{file}" for file in files)
        elif ":" in source:
            yield source
        else:
            raise UserError(
                f"{source}: name a public log, sqlite:FILE or kafka://host:port/prefix, or a folder"
                " of public logs; a study file has the confidential log too, which this process"
                " must not open"
            )


def _name(source: str) -> str:
    """The name of a log: that of its file, or the prefix of its topics."""
    location, prefix = address(source)
    name = Path(location).name if prefix is None else prefix
    return re.sub(r"(-public)?(\.db)?$", "", name, count=1) or name
