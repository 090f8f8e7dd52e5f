"""The page of `init`: a draft as one form, for one browser of this machine alone."""

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
from stream_dp.services.desk.desk_page import DeskPage

ANSWERS = {
    "periods": "2021-01, 3",
    "people": "500",
    "work: values": "yes,no",
}


class Init(threading.Thread):
    """`stream-dp init --page` in a thread, with the printed address."""

    def __init__(self, file: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(daemon=True)
        self.file, self.out, self.code = file, out, -1
        self.begun, self.address = threading.Event(), ""
        enter = DeskPage.__enter__

        def entered(page: DeskPage) -> DeskPage:
            self.address = page.address
            self.begun.set()
            return enter(page)

        monkeypatch.setattr(DeskPage, "__enter__", entered)

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
    return dict(re.findall(r'name="(key)" value="([^"]*)"', page))


def sent(**answers: str) -> dict[str, str]:
    return {f"answer:{key}": answer for key, answer in answers.items()}


def opened(init: Init) -> Browser:
    browser = Browser(init.address)
    token = urlsplit(init.address)
    assert browser.ask(f"{token.path}?{token.query}")[0].status == 303
    return browser


def test_the_page_writes_the_study_of_the_answers(init: Init) -> None:
    browser = opened(init)
    page = browser.page()
    assert "Survey" not in page
    for key, answer in ANSWERS.items():
        browser.ask("/", {**hidden(page), **sent(**{key: answer})})
        assert f'value="{answer}"' in browser.page()
    assert (
        "the best guess about one person is right at most 56 times in 100, and a tossed coin"
        " 50 times" in browser.page()
    )
    assert not init.out.exists()
    assert browser.ask("/", {**hidden(page), "write": "1"})[0].status == 303
    last = browser.page()
    assert "to send it" in last
    assert "stream-dp send" in last
    init.join(60)
    assert init.code == 0
    text = init.out.read_text()
    assert '"yes"' in text
    assert "size = 500" in text


def test_a_wrong_answer_stays_beside_its_fault_and_changes_nothing_else(init: Init) -> None:
    browser = opened(init)
    page = browser.page()
    browser.ask("/", {**hidden(page), **sent(periods="January", people="500")})
    refused = browser.page()
    assert "write the first period and how many" in refused
    assert 'value="January"' in refused
    assert 'value="500"' in refused
    browser.ask("/", {**hidden(page), **sent(periods="2021-01, 3", price="5"), "write": "1"})
    refused = unescape(browser.page())
    assert "work: values: an answer is needed" in refused
    assert "price again: an answer is needed" in refused
    assert not init.out.exists()
    browser.ask("/", {**hidden(page), **sent(periods="")})
    assert 'value="2021-01, 3"' not in browser.page()


def test_nobody_else_is_let_in(init: Init) -> None:
    token = urlsplit(init.address).query
    stranger, browser = Browser(init.address), Browser(init.address)
    assert stranger.ask("/")[0].status == 403
    assert stranger.ask("/?token=" + "0" * 32)[0].status == 403
    assert stranger.ask(f"/?{token}", Host="evil.example")[0].status == 421
    assert browser.ask(f"/?{token}")[0].status == 303
    assert stranger.ask(f"/?{token}")[0].status == 403  # it works once
    page = browser.page()
    fields = {**hidden(page), **sent(people="500")}
    assert stranger.ask("/", fields)[0].status == 403
    assert browser.ask("/", {**fields, "key": "0"})[0].status == 403
    assert browser.ask("/", fields, Origin="https://evil.example")[0].status == 403
    assert browser.ask("/", fields, **{"Content-Length": "9" * 8})[0].status == 413
    assert browser.ask("/", fields, Host="evil.example")[0].status == 421
    assert browser.page() == page
    headers = browser.ask("/")[0].headers
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/style.css", "/desk.js"]


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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed; tests/tools can, as root")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        one = started.chromium.launch(executable_path=program, args=options, timeout=600_000)
        yield one
        one.close()


@pytest.mark.parametrize("script", [True, False])
def test_the_page_follows_every_change_and_can_be_read_by_everybody(
    script: bool, init: Init, chromium: Any
) -> None:
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, bypass_csp=script, java_script_enabled=script
    )
    page = context.new_page()
    page.goto(init.address)
    for key, answer in ANSWERS.items():
        page.locator(f'[name="answer:{key}"]').click()
        page.keyboard.type(answer)  # while the page is drawn anew
        page.keyboard.press("Tab")
    if script:
        page.locator("text=work-patterns: at-least 1 of last 3 work=yes").first.wait_for(
            state="attached"
        )
        page.locator('[name="answer:price"]').fill("2")
        page.keyboard.press("Tab")
        page.locator("strong", has_text="eps 2: the best guess").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate(axe_core())
        assert page.evaluate("axe.run(document).then(r => r.violations.map(v => v.id))") == []
    with page.expect_navigation():
        page.locator("button", has_text="Write the study").click()
    assert page.locator("code").count() == 4
    context.close()
    init.join(60)
    assert init.code == 0
