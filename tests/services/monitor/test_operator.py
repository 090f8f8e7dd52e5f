"""The operator's monitor: who is let in, what is shown, how acts are confirmed and logged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

import pytest
from kit.monitors import Answer, ask
from kit.studies import study_toml

from stream_dp.errors import UserError
from stream_dp.services import cli
from stream_dp.services.monitor import operator
from stream_dp.services.monitor.operator import operator_monitor
from stream_dp.services.monitor.operator_facts import Watch
from stream_dp.services.process.access import Access, access_for

TOKEN = "a token of this test alone"


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
        return ask(self.application, target, headers=headers)

    def post(self, target: str, fields: dict[str, str], **headers: str) -> Answer:
        body = urlencode(fields).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.application, target, method="POST", headers=named, body=body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operated")


@pytest.fixture(scope="module")
def operated(folder: Path) -> Operated:
    return Operated(folder, access_for("127.0.0.1", None, None))


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
    fresh = Operated(folder, access_for("127.0.0.1", None, None))
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


def test_a_draft_is_planned_from_a_form_of_its_own(operated: Operated) -> None:
    page = operated.get("/plan")
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")
    assert "sqlite:" not in page.text
    fields = {"key": key_of(page), "draft": "= 1", "error": "none"}
    assert operated.post("/plan", {**fields, "key": "0" * 64}).status == 403
    assert operated.post("/plan", fields, origin="http://elsewhere.example").status == 403
    answer = operated.post("/plan", fields)
    assert (answer.status, "error: write a number" in answer.text) == (400, True)


def test_strange_texts_are_refused_in_a_line(operated: Operated, folder: Path) -> None:
    key = key_of(operated.get("/plan"))
    forms = (
        b"key=%C3%A9",
        "key=é".encode(),
        b"key=%ff%00",
        b"key=\xff\xfe",
        b"\x00",
        b"&".join([b"a=1"] * 30),
    )
    for path in ("/plan", "/close", "/job/none/retry"):
        for body in forms:
            answer = ask(operated.application, path, method="POST", body=body)
            assert answer.status in {400, 403}, (path, body, answer.text)
    fields = {"key": key, "draft": "= 1"}
    for origin in ("http://[", "é", "http://[::z]", "null", ""):
        assert operated.post("/plan", fields, origin=origin).status == 403
    for host in ("[", "[::z]", "é", "a\x00b"):
        assert operated.get("/", host=host).status == 403
    guarded = Operated(folder, access_for("0.0.0.0", TOKEN, None))
    for headers in ({"cookie": "stream-dp-operator=é"}, {"authorization": "Bearer é"}):
        assert guarded.get("/", **headers).status == 303
    for body in (b"token=%C3%A9", b"token=\xff", b"token=%ff%00"):
        answer = ask(guarded.application, "/login", method="POST", body=body)
        assert answer.status in {400, 403}, answer.text
    for path in ("/job/%ff/retry", "/job/%00/retry", "/%ff%00", "/?done=%ff%00"):
        assert operated.get(path).status in {200, 404}


def test_only_loopback_names_reach_a_page_without_a_token(operated: Operated) -> None:
    assert operated.get("/", host="127.0.0.1:8080").status == 200
    assert operated.get("/", host="localhost:8080").status == 200
    for host in ("rebound.example", "127.0.0.1.example", ""):
        assert operated.get("/", host=host).status == 403
        assert operated.get("/events", host=host).status == 403


def test_a_token_lets_in_once_it_is_given(folder: Path, operated: Operated) -> None:
    guarded = Operated(folder, access_for("0.0.0.0", TOKEN, None))
    assert guarded.get("/", host="monitor.example").headers["location"] == "/login"
    assert guarded.get("/close", host="monitor.example").status == 303
    assert guarded.post("/login", {"token": "wrong"}).status == 403
    cookie = guarded.post("/login", {"token": TOKEN}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    session = cookie.partition(";")[0]
    assert guarded.get("/", host="monitor.example", cookie=session).status == 200
    assert guarded.get("/", authorization=f"Bearer {TOKEN}").status == 200
    assert TOKEN not in session


def test_a_proxys_header_names_who_acts(folder: Path, operated: Operated) -> None:
    proxied = Operated(folder, access_for("0.0.0.0", None, "X-User"))
    assert proxied.get("/").status == 403
    assert proxied.get("/", **{"x-user": "ada"}).status == 200


def test_strangers_are_never_let_in_unasked() -> None:
    with pytest.raises(UserError, match="--token-file"):
        access_for("0.0.0.0", None, None)
    with pytest.raises(UserError, match="characters"):
        access_for("127.0.0.1", "short", None)
    assert not access_for("127.0.0.1", TOKEN, None).is_token("")


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
