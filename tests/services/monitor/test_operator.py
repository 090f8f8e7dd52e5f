"""The operator's monitor: who is let in, what is shown, how acts are confirmed and logged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlencode

import pytest
from kit.monitors import Answer, ask
from kit.studies import study_toml

from stream_dp.errors import UserError
from stream_dp.services.commands import cli
from stream_dp.services.monitor import operator
from stream_dp.services.monitor.operator import OPEN, operator_monitor
from stream_dp.services.monitor.operator_facts import Watch
from stream_dp.services.monitor.render import ASSETS
from stream_dp.services.process.access import Access, operator_access

TOKEN = "a token of this test alone"
BEARER = {"authorization": f"Bearer {TOKEN}"}
STRANGER = {"authorization": ""}


class Operated:
    """A small study whose first period has a report, and its monitor, asked without a server."""

    def __init__(self, folder: Path, access: Access) -> None:
        self.study = folder / "small.toml"
        if not self.study.exists():
            self.study.write_text(study_toml())
            (folder / "reports.csv").write_text("person,period,poverty\na,2021-01,1\nb,2021-01,7\n")
            reports = str(folder / "reports.csv")
            assert cli.main(["send", str(self.study), reports]) == 0
        self.watch = Watch(self.study)
        self.application = operator_monitor(self.study, access, self.watch)

    def get(self, target: str, **headers: str) -> Answer:
        return ask(self.application, target, headers=BEARER | headers)

    def post(self, target: str, fields: dict[str, str], **headers: str) -> Answer:
        body = urlencode(fields).encode()
        named = BEARER | {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.application, target, method="POST", headers=named, body=body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operated")


@pytest.fixture(scope="module")
def operated(folder: Path) -> Operated:
    return Operated(folder, Access(TOKEN))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for the first facts, however busy the machine is."""
    monkeypatch.setattr(operator, "_FIRST_FACTS_TIMEOUT", 600.0)


def key_of(answer: Answer) -> str:
    (key,) = re.findall(r'name="key" value="(\w+)"', answer.text)
    return str(key)


def test_the_overview_shows_what_the_study_waits_for(operated: Operated) -> None:
    answer = operated.get("/")
    assert answer.status == 200
    assert "Open period: 2021-01" in answer.text
    assert "CONFIDENTIAL" in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_facts_that_take_long_come_by_themselves(
    folder: Path, operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_FIRST_FACTS_TIMEOUT", 0.01)
    read, known = Event(), operated.watch.facts

    def slow(self: Watch) -> None:
        assert read.wait(600)
        self.facts = known

    monkeypatch.setattr(Watch, "refresh", slow)
    fresh = Operated(folder, Access(TOKEN))
    answer = fresh.get("/")
    assert (answer.status, "Its logs are being read" in answer.text) == (200, True)
    assert 'data-head="none"' in answer.text  # so that the page shows the first head that comes
    read.set()
    assert fresh.watch.soon(600) is known
    assert "Open period: 2021-01" in fresh.get("/").text


def test_a_close_is_shown_confirmed_and_logged(
    operated: Operated, capsys: pytest.CaptureFixture[str]
) -> None:
    page = operated.get("/close")
    assert page.status == 200, page.text
    assert "people with an answer" in page.text
    fields = {"key": key_of(page), "period": "2021-01", "confirm": "2021-01"}
    for wrong, status in (
        ({**fields, "key": "0" * 64}, 403),
        ({**fields, "confirm": "yes"}, 400),
        ({**fields, "period": "2021-02"}, 409),
    ):
        assert operated.post("/close", wrong).status == status
    assert operated.post("/close", fields, origin="http://elsewhere.example").status == 403
    assert operated.post("/close", fields, sec_fetch_site="cross-site").status == 403
    assert capsys.readouterr().err == ""
    done = operated.post("/close", fields)
    assert (done.status, done.headers["location"]) == (303, "/?done=close%202021-01%3A%20done")
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "operator-act"
    assert (line["by"], line["act"], line["what"]) == ("operator", "close", "2021-01")
    assert line["outcome"] == "done"
    assert "the close was given" in operated.get("/").text


def test_strange_texts_are_refused_in_a_line(operated: Operated) -> None:
    key = key_of(operated.get("/close"))
    forms = (
        b"key=%C3%A9",
        "key=é".encode(),
        b"key=%ff%00",
        b"key=\xff\xfe",
        b"\x00",
        b"&".join([b"a=1"] * 30),
    )
    for path in ("/close", "/job/none/retry"):
        for body in forms:
            answer = ask(operated.application, path, method="POST", headers=BEARER, body=body)
            assert answer.status in {400, 403}, (path, body, answer.text)
    fields = {"key": key, "period": "2021-01"}
    assert operated.post("/close", {**fields, "confirm": "x" * 70_000}).status == 413
    for origin in ("http://[", "é", "http://[::z]", "null", ""):
        assert operated.post("/close", fields, origin=origin).status == 403
    for headers in ({"cookie": "stream-dp-0=é"}, {"authorization": "Bearer é"}):
        assert operated.get("/", **(STRANGER | headers)).status == 303
    for body in (b"token=%C3%A9", b"token=\xff", b"token=%ff%00", b"&".join([b"a=1"] * 30)):
        answer = ask(operated.application, "/login", method="POST", body=body)
        assert answer.status in {400, 403}, answer.text
    for path in ("/job/%ff/retry", "/job/%00/retry", "/%ff%00", "/?done=%ff%00"):
        assert operated.get(path).status in {200, 404}


def routes(application: Any) -> list[Any]:
    """The routes of an application behind its limits and its entry."""
    while not hasattr(application, "routes"):
        application = application._application
    return list(application.routes)


def test_a_stranger_reaches_no_route(operated: Operated) -> None:
    """Every route that an application has, a new one too, with each of its methods."""
    targets = {
        (method, re.sub(r"\{\w+\}", "x", route.path))
        for route in routes(operated.application)
        for method in route.methods
    }
    assert {("GET", "/"), ("POST", "/close"), ("POST", "/job/x/x")} <= targets
    targets |= {("GET", path) for path in ("/docs", "/openapi.json", "/none", "//", "/healthz/")}
    for method, path in sorted(targets):
        for header in ({}, {"authorization": "Bearer wrong"}, {"x-user": "ada"}):
            body = b"key=1&period=2021-01&confirm=2021-01" if method == "POST" else b""
            answer = ask(operated.application, path, method=method, headers=header, body=body)
            assert (answer.status, answer.headers.get("location")) == (303, "/login"), (
                method,
                path,
            )
            assert answer.body == b""
    seen = {path for path in OPEN if ask(operated.application, path).status == 200}
    assert seen == {"/healthz", "/login", *ASSETS}


def test_a_token_lets_in_once_it_is_given(operated: Operated) -> None:
    assert operated.post("/login", {"token": "wrong"}, **STRANGER).status == 403
    assert operated.post("/login", {}, **STRANGER).status == 403
    cookie = operated.post("/login", {"token": TOKEN}, **STRANGER).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    session = cookie.partition(";")[0]
    assert operated.get("/", **STRANGER, cookie=session).status == 200
    assert operated.get("/", **BEARER).status == 200
    assert TOKEN not in session


def test_a_link_works_once(folder: Path, operated: Operated) -> None:
    access = operator_access("127.0.0.1", None, None)
    linked = Operated(folder, access)
    token = access.link.partition("=")[2]
    assert len(token) == 32
    assert linked.get("/", authorization=f"Bearer {token}").status == 303, "it is a link's alone"
    assert "printed" in linked.get("/login").text
    assert linked.get("/?token=wrong").headers["location"] == "/login"
    begun = linked.get(access.link)
    assert (begun.status, begun.headers["location"]) == (303, "/")
    session = begun.headers["set-cookie"].partition(";")[0]
    assert linked.get("/", cookie=session).status == 200
    for again in (linked.get(access.link), linked.post("/login", {"token": token})):
        assert "set-cookie" not in again.headers
    assert linked.get("/", cookie=session).status == 200
    other = operator_access("127.0.0.1", None, None)
    assert (other.link, other.cookie) != (access.link, access.cookie)


def test_a_proxys_header_names_who_acts(folder: Path, operated: Operated) -> None:
    proxied = Operated(folder, Access(TOKEN, proxy_header="x-user"))
    assert proxied.get("/", **{"x-user": "ada"}).status == 200
    assert proxied.get("/").status == 403
    assert proxied.get("/", **STRANGER, **{"x-user": "ada"}).status == 403, "no proxy sent it"
    assert proxied.post("/login", {"token": TOKEN}).status == 403


def test_strangers_are_never_let_in_unasked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--token-file"):
        operator_access("0.0.0.0", None, None)
    with pytest.raises(UserError, match=r"--proxy-header: .* --token-file"):
        operator_access("127.0.0.1", None, "X-User")
    token = tmp_path / "token"
    token.write_text("short")
    with pytest.raises(UserError, match="characters"):
        operator_access("127.0.0.1", token, None)
    token.write_text(f"{TOKEN}\n")
    access = operator_access("0.0.0.0", token, None)
    assert access.link == ""
    assert not access.takes("")
    assert access.takes(TOKEN)
    assert access.takes(TOKEN)


def test_a_job_that_is_not_there_cannot_be_given_up(operated: Operated) -> None:
    assert operated.get("/job/none/abandon").status == 404
    assert operated.get("/job/none/format").status == 404
    assert operated.post("/job/none/abandon", {"confirm": "yes"}).status == 403


def test_options_of_the_operator_are_the_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = str(tmp_path / "none")
    assert cli.main(["monitor", "sqlite:x.db", "--proxy-header", "X"]) == 2
    assert cli.main(["monitor", none, "--operator"]) == 2
    (tmp_path / "small.toml").write_text(study_toml())
    words = ["monitor", str(tmp_path / "small.toml"), "--operator"]
    assert cli.main([*words, "--listen", "0.0.0.0:0"]) == 2
    assert cli.main([*words, "--token-file", none]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4
