"""Hostile logs and hostile requests: an error page, and nothing more."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import public_logs
from kit.hostile import PEOPLE, PERIODS, STUDY, drafts, drafts_and, mutated, sealed, sound
from kit.matrices import chunks
from kit.monitors import Answer, Monitor, ServedHere, ask, connected, follower_of

from stream_dp.log import public_log
from stream_dp.log.log import Record
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.commands import cli
from stream_dp.services.monitor import client_limits
from stream_dp.services.monitor.answer_limits import AnswerCache
from stream_dp.services.monitor.follower import Follower
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_front import public_monitor
from stream_dp.studyfile import parse_study

SENT = sound()
PATHS = (
    "/",
    "/release/pairs",
    "/release/months?q=total+at-least+2&measure=count",
    "/data/homes?pair=groups:region:size",
    "/privacy",
    "/verify",
    "/downloads",
    "/certificate/1",
    "/api/v1/releases",
    "/api/v1/estimate?release=both&query=pattern+full",
    "/download/homes/people.csv",
    "/download/pairs/panel.json",
)


class Shown:
    """A monitor of these records, asked without a server."""

    def __init__(self, records: list[Record]) -> None:
        self._application = public_monitor(follower_of(records))

    def get(self, target: str) -> Answer:
        return ask(self._application, target)


def test_a_sound_log_is_shown() -> None:
    shown = Shown(sealed(drafts(SENT)))
    assert {shown.get(path).status for path in PATHS} == {200}


@chunks(10, 20)
def test_a_mutated_log_is_shown_or_refused(seed: int) -> None:
    shown = Shown(mutated(random.Random(100 + seed), SENT))
    for path in PATHS:
        answer = shown.get(path)
        assert answer.status in {200, 400, 404, 503}, (path, answer.text)
        assert "Traceback" not in answer.text


def test_the_page_of_a_refused_log_says_what_verify_says() -> None:
    chain, one = drafts_and(SENT, "pairs")
    one.head["rho"] = "<script>"
    answer = Shown(sealed(chain)).get("/")
    assert answer.status == 503
    place = f"public log: message {chain.index(one)}"
    assert f"{place}: a certificate cannot be read: rho" in answer.text


def test_texts_of_the_study_are_escaped() -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    study = parse_study({**STUDY, "study": {**STUDY["study"], "description": hostile}})
    truth = np.zeros((PEOPLE, PERIODS), np.uint8)
    shown = Shown(sealed(drafts(public_logs.published(study, {"work": truth}, SeededNoise(4)))))
    pages = [shown.get(path) for path in ("/", "/privacy", "/release/pairs")]
    assert {page.status for page in pages} == {200}
    assert "&lt;script&gt;alert(1)" in pages[0].text
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<img" not in page.text


def test_a_log_that_is_not_there_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["monitor", str(tmp_path / "study.toml")]) == 2
    assert cli.main(["monitor", "sqlite:x.db", "--listen", "nowhere"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2


def test_a_monitor_that_starts_before_the_first_publication_says_that_it_waits(
    tmp_path: Path,
) -> None:
    def absent() -> Any:
        return public_log(f"sqlite:{tmp_path}/later.db")

    follower = Follower(absent, absent)
    follower.look()
    page = ask(public_monitor(follower), "/")
    assert page.status == 503
    assert "nothing is published yet" in page.text
    assert ask(public_monitor(follower), "/metrics").text.endswith("stream_dp_monitor_ready 0\n")


def test_a_restored_log_is_read_anew() -> None:
    records = sealed(drafts(SENT))
    shown: list[Record] = list(records)
    follower = follower_of(shown)
    first, head = follower.served, follower.head
    assert isinstance(first, ServedHere)
    follower.look()
    assert (follower.served is first, first.retired) == (True, False)
    del shown[-5:]
    follower.look()
    assert follower.served is None or follower.head != head
    assert first.retired
    shown[:] = records
    follower.look()
    assert follower.head == head


REQUESTS = [
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
    b"GET /download/%2e%2e%2f%2e%2e/panel.csv HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
    b"GET /style.css/../../commands/cli.py HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1]\r\nX: " + b"y" * 40_000,
    b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: [::1]\r\nConnection: close\r\n\r\n0"
    b"\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    b"\r\n\r\nGARBAGE\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", REQUESTS, ids=range(len(REQUESTS)))
def test_strange_requests_get_a_refusal(served: Monitor, request_bytes: bytes) -> None:
    with closing(connected(served.port)) as one:
        one.sendall(request_bytes)
        answer = b""
        while part := one.recv(65_536):
            answer += part
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert b"root:" not in answer
    assert served.get("/healthz")[0] == 200


def test_clients_that_say_nothing_are_hung_up_on_and_others_served(served: Monitor) -> None:
    silent = [connected(served.port) for _ in range(100)]
    for one in silent[:50]:
        one.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert served.get("/")[0] == 200
    for one in silent:
        one.settimeout(600 + client_limits.REQUEST_TIMEOUT)
        with one:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""


@pytest.mark.parametrize("path", ["/", "/style.css", "/none", "/api/v1/study"])
def test_every_answer_confines_the_page(path: str) -> None:
    headers = Shown(sealed(drafts(SENT))).get(path).headers
    assert headers["content-security-policy"] == client_limits.CSP
    assert "unsafe" not in client_limits.CSP
    assert "http" not in client_limits.CSP
    assert headers["x-content-type-options"] == "nosniff"


def test_known_answers_are_bounded() -> None:
    draw, known = np.random.default_rng(1), AnswerCache(limit=50_000)
    for key in map(str, draw.integers(0, 50, 500)):
        known.keep((key,), Work({}, b"x" * 1000))
        assert known.get((key,)) == Work({}, b"x" * 1000)
    assert 20 <= len(known._answers) <= 25
    known.keep(("large",), Work({}, bytes(60_000)))
    assert known.get(("large",)) is None
