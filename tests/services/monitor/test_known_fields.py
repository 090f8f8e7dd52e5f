"""The fields of addresses: an answer depends on those that a page or the API reads alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from kit.hostile import drafts, sealed, sound
from kit.monitors import ServedHere, follower_of

from stream_dp.services.monitor import query_forms
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_front import known_query, public_monitor

TEMPLATES = Path(query_forms.__file__).parent / "templates"
RECORDS = sealed(drafts(sound()))


def is_known(name: str) -> bool:
    return known_query(f"{name}=1") == f"{name}=1"


class Counted(ServedHere):
    """Counts the questions that are computed."""

    asked = 0

    async def ask(self, question: Work, seconds: float) -> Work:
        self.asked += 1
        return await super().ask(question, seconds)


def get(application: Any, target: str) -> tuple[int, bytes]:
    path, _, query = target.partition("?")
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": query.encode(), "headers": [], "root_path": ""}
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])
    status, body = 0, b""

    async def receive() -> Any:
        for message in messages:
            return message
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        nonlocal status, body
        status, body = message.get("status", status), body + message.get("body", b"")

    asyncio.run(application(scope, receive, send))
    return status, body


def test_a_known_question_with_other_fields_is_not_computed_again() -> None:
    follower = follower_of(RECORDS)
    follower.served = served = Counted(RECORDS)
    application = public_monitor(follower)
    first = get(application, "/api/v1/estimate?release=pairs&query=pattern+full")
    assert first[0] == 200
    for query in (
        "query=pattern%20full&release=pairs",
        "fbclid=x&release=pairs&query=pattern+full&utm_source=mail",
        "release=pairs&query=pattern+full&",
    ):
        assert get(application, f"/api/v1/estimate?{query}") == first
    assert served.asked == 1
    other = get(application, "/api/v1/estimate?release=pairs&query=pattern+full&measure=count")
    assert other[0] == 200
    assert other[1] != first[1]
    assert served.asked == 2


def test_every_field_that_a_page_or_the_api_reads_is_known() -> None:
    application = ServedHere(RECORDS).application
    routes = [route for route in application.routes if hasattr(route, "dependant")]
    read = {field.alias for route in routes for field in route.dependant.query_params}
    read |= {
        name
        for name, _ in re.findall("([a-z0-9_]+)=(x|1)", query_forms.PageQuery("x", True).fields())
    }
    assert {"q", "release", "beside", "panel"} <= read
    assert [name for name in sorted(read) if not is_known(name)] == []


def test_every_field_of_a_public_form_is_known() -> None:
    """A form whose method is not POST puts its fields into the address."""
    names = {"q2", "period2", "region2", "with"}  # of the second answer of a comparison
    for template in TEMPLATES.glob("*.html"):
        text = template.read_text()
        for form in re.findall(r"<form[^>]* action.*?</form>", text, re.DOTALL):
            if 'method="post"' in form:
                continue
            names |= set(re.findall(r'\sname="([^"{]+)(?:\{\{ i \}\})?"', form))
    assert {"q", "need", "words", "p"} <= names
    assert [name for name in sorted(names - {"p"}) if not is_known(name)] == []
    assert is_known("p12")
