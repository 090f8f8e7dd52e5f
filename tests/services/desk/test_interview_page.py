"""The page of `init`: the questions of the terminal, for one browser of this machine alone."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from kit.monitors import wait_until
from kit.tools import axe_core

from stream_dp.services.commands import cli
from stream_dp.services.desk.interview_page import InterviewPage

ANSWERS = {
    "identifies a person": "person",
    "Columns to publish": "work",
    "First period": "2021-01",
    "Number of periods": "3",
    "Number of persons": "500",
    "Values of": "yes,no",
    "over how many periods": "1",
    "How precise": "10",
}


class Init(threading.Thread):
    """`stream-dp init --page` in a thread, with the printed address."""

    def __init__(self, file: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(daemon=True)
        self.file, self.out, self.code = file, out, -1
        self.begun, self.address = threading.Event(), ""
        enter = InterviewPage.__enter__

        def entered(page: InterviewPage) -> InterviewPage:
            self.address = page.address
            self.begun.set()
            return enter(page)

        monkeypatch.setattr(InterviewPage, "__enter__", entered)

    def run(self) -> None:
        self.code = cli.main(["init", str(self.file), "--page", "--out", str(self.out)])
        self.begun.set()


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Init]:
    (tmp_path / "asked.csv").write_text("person,period,work\n1,2021-01,yes\n")
    one = Init(tmp_path / "asked.csv", tmp_path / "made.toml", monkeypatch)
    one.start()
    assert one.begun.wait(60)
    yield one
    assert not one.is_alive() or one.code == -1


class Browser:
    """Requests with the cookie of the first one."""

    def __init__(self, address: str) -> None:
        self.port = urlsplit(address).port or 0
        self.cookie = ""

    def ask(
        self, path: str, fields: dict[str, str] | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            sent = {"Cookie": self.cookie, **headers}
            body = None if fields is None else urlencode(fields)
            connection.request("GET" if body is None else "POST", path, body, sent)
            answer = connection.getresponse()
            if cookie := answer.headers["Set-Cookie"]:
                self.cookie = cookie.partition(";")[0]
            return answer, answer.read().decode()

    def page(self) -> str:
        answer, text = self.ask("/")
        assert answer.status == 200, text
        return text


def hidden(page: str) -> dict[str, str]:
    return dict(re.findall(r'name="(key|step)" value="([^"]*)"', page))


def question(page: str) -> str:
    return unescape(re.findall(r"<title>(.*)</title>", page)[0])


def answer(page: str) -> str:
    known = (text for part, text in ANSWERS.items() if part in question(page))
    proposal = re.search(r'value="([^"]*)"(?: required)? (?:checked|maxlength)', page)
    chosen = re.search(r"<option selected>([^<]*)<", page)
    return next(known, (proposal or chosen or re.match("()", ""))[1])


def test_the_page_writes_the_study_of_the_answers(init: Init) -> None:
    browser = Browser(init.address)
    assert (
        browser.ask(urlsplit(init.address).path + "?" + urlsplit(init.address).query)[0].status
        == 303
    )
    for _ in range(40):
        page = browser.page()
        if question(page) == "A study":
            break
        status = browser.ask("/", {**hidden(page), "answer": answer(page)})[0].status
        assert status == 303
    assert "to send it" in page
    assert "stream-dp send" in page
    init.join(60)
    assert init.code == 0
    text = init.out.read_text()
    assert '"yes"' in text
    assert "size = 500" in text


def test_a_wrong_answer_is_asked_again_and_a_step_goes_back(init: Init) -> None:
    browser = Browser(init.address)
    browser.ask("/?" + urlsplit(init.address).query)
    first = browser.page()
    browser.ask("/", {**hidden(first), "answer": "no such name!"})
    refused = browser.page()
    assert question(refused) == question(first)
    assert "use letters, digits" in refused
    browser.ask("/", {**hidden(refused), "answer": "fine"})
    second = browser.page()
    assert question(second) != question(first)
    browser.ask("/", {**hidden(first), "answer": "sent twice"})
    assert browser.page() == second
    browser.ask("/", {**hidden(second), "back": "1"})
    assert question(browser.page()) == question(first)


def test_nobody_else_is_let_in(init: Init) -> None:
    token = urlsplit(init.address).query
    stranger, browser = Browser(init.address), Browser(init.address)
    assert stranger.ask("/")[0].status == 403
    assert stranger.ask("/?token=" + "0" * 32)[0].status == 403
    assert stranger.ask(f"/?{token}", Host="evil.example")[0].status == 421
    assert browser.ask(f"/?{token}")[0].status == 303
    assert stranger.ask(f"/?{token}")[0].status == 403  # it works once
    page = browser.page()
    fields = {**hidden(page), "answer": "x"}
    assert stranger.ask("/", fields)[0].status == 403
    assert browser.ask("/", {**fields, "key": "0"})[0].status == 403
    assert browser.ask("/", fields, Origin="https://evil.example")[0].status == 403
    assert browser.ask("/", fields, **{"Content-Length": "9" * 8})[0].status == 413
    assert browser.ask("/", fields, Host="evil.example")[0].status == 421
    assert browser.page() == page
    headers = browser.ask("/")[0].headers
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script" not in page


def test_a_broken_request_is_answered_and_an_ended_one_ignored(
    init: Init, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[object] = []
    end = ThreadingHTTPServer.shutdown_request

    def ended(server: ThreadingHTTPServer, request: Any) -> None:
        end(server, request)
        served.append(request)

    monkeypatch.setattr(ThreadingHTTPServer, "shutdown_request", ended)
    browser = Browser(init.address)
    browser.ask("/?" + urlsplit(init.address).query)
    assert browser.ask("/", Host="[")[0].status == 421
    with socket.create_connection(("127.0.0.1", browser.port)) as broken:
        head = f"Host: localhost\r\nCookie: {browser.cookie}\r\n"
        broken.sendall(f"GET http://[ HTTP/1.1\r\n{head}\r\n".encode())
        assert b" 404 " in broken.recv(100)
    with socket.create_connection(("127.0.0.1", browser.port)) as hasty:
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        hasty.sendall(f"POST / HTTP/1.1\r\n{head}Content-Length: 9\r\n\r\nabc".encode())
    wait_until(lambda: len(served) == 4)
    assert browser.page()
    assert "Traceback" not in capsys.readouterr().err


def test_a_file_that_cannot_be_read_opens_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["init", str(tmp_path / "missing.csv"), "--page"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_page_works_without_scripts_and_can_be_read_by_everybody(init: Init) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed; tests/tools can, as root")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page(viewport={"width": 390, "height": 844}, bypass_csp=True)
        page.goto(init.address)
        for _ in range(40):
            title = page.title()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            if title == "A study":
                break
            known = next((text for part, text in ANSWERS.items() if part in title), None)
            if known is not None:
                page.locator("input[name=answer]").fill(known)
            with page.expect_navigation():
                page.locator("button", has_text="Next").click()
        assert page.locator("code").count() == 4
        page.evaluate(axe_core())
        assert page.evaluate("axe.run(document).then(r => r.violations.map(v => v.id))") == []
        browser.close()
    init.join(60)
    assert init.code == 0
