"""The addresses of several studies on one monitor: /studies/NAME/..."""

from __future__ import annotations

from collections.abc import Mapping

from .limits import Application, Message, Receive, Send
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
