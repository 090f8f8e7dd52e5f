"""The planner's form: the planner's own numbers, and hostile drafts that end in an error page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from threading import Event
from urllib.parse import urlencode

import pytest
from kit.hostile import drafts as log_drafts
from kit.hostile import sealed, sound
from kit.monitors import Answer, ask, follower_of

from stream_dp.client import PublicLog
from stream_dp.services.monitor import draft as program
from stream_dp.services.monitor import planner_form as drafts
from stream_dp.services.monitor.front import public_monitor
from stream_dp.services.monitor.plan_request import PlanRequest
from stream_dp.services.monitor.plan_result import planned
from stream_dp.study.study_text import study_text

RECORDS = sealed(log_drafts(sound()))


@pytest.fixture(scope="module")
def application():
    return public_monitor(follower_of(RECORDS))


def post(application, fields: dict[str, str], target: str = "/plan") -> Answer:
    return ask(application, target, method="POST", body=urlencode(fields).encode())


def test_the_form_begins_with_the_declaration(application, public: PublicLog) -> None:
    answer = ask(application, "/plan")
    assert answer.status == 200
    assert study_text(public.study) in unescape(answer.text)


def test_the_answers_are_the_planners(application, public: PublicLog) -> None:
    text = study_text(public.study)
    request = PlanRequest(queries=("pattern full ?",), error=0.2, alternatives=True)
    data = planned(public.study, request).as_dict()
    assert drafts.plan_draft(text, request) == json.loads(json.dumps(data))
    fields = {"draft": text.replace("\n", "\r\n"), "query": "pattern  full ?", "error": "0.2"}
    answer = post(application, {**fields, "alternatives": "yes", "measure": "share"})
    assert answer.status == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    for row in data["errors"]:
        assert f"{row['share_half_width']:.2%}" in answer.text
    for row in data["alternatives"]:
        assert f"{row['half_width']:.2%}" in answer.text
    assert f"{data['needed']['largest_half_width']:.4g}" in answer.text
    assert text in unescape(answer.text)


HOSTILE = [
    ("", "draft: not a TOML file|study: is required|required"),
    ("= <script>alert(1)</script>", "not a TOML file"),
    ("[<script>]", "not a TOML file"),
    ('"<script>alert(1)</script>" = 1', "unknown section"),
    ("a = " + "[" * 5000, "tables inside tables"),
    ("x" * 17_000, "longer than 16,000"),
    ('[run]\nlog = "sqlite:/etc/passwd"', "leave [run] out"),
    ("\x00\x1b[31m\u202e", "not a TOML file"),
]


@pytest.mark.parametrize(("draft", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_draft_is_an_error_page(
    application, draft: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(words, *, input, **_):
        said = json.dumps(program.plan(json.loads(input)))
        return subprocess.CompletedProcess(words, 0, said, "")

    monkeypatch.setattr(subprocess, "run", here)
    answer = post(application, {"draft": draft})
    assert answer.status == 400
    assert any(word in answer.text for word in words.split("|")), answer.text
    for wrong in ("<script>alert", "\x1b", "\u202e", "Traceback"):
        assert wrong not in answer.text
    form = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
    assert form is not None
    assert "/etc/passwd" not in answer.text.replace(form[1], "")
    if draft.isprintable():  # a refused draft is not lost
        assert unescape(form[1]) == draft


def test_other_fields_are_refused_before_anything_runs(
    application, public: PublicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    draft = study_text(public.study)
    for fields, words in (
        ({"error": "0"}, "--error: write a number above 0"),
        ({"error": "lots"}, "error: write a number"),
        ({"error": "9" * 30}, "error: write a number"),
        ({"people": "1.5"}, "people: write a number"),
        ({"people": "-1"}, "--people"),
        ({"query": "x" * 501}, "query: is longer"),
        ({str(i): "x" for i in range(30)}, "not understood"),
    ):
        answer = post(application, {"draft": draft, **fields})
        assert (answer.status, words in answer.text) == (400, True), answer.text
    body = b"draft=%ff%fe" + b"\xff"
    assert ask(application, "/plan", method="POST", body=body).status == 400
    assert post(application, {"draft": "x" * 70_000}).status == 413
    for path in ("/", "/plan/", "/api/v1/study", "/ask/pairs"):
        assert post(application, {"draft": "x"}, path).status == 405


def test_one_draft_at_a_time_and_not_for_long(
    application, public: PublicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields, begun, ended = {"draft": study_text(public.study)}, Event(), Event()

    def slow(words, **_):
        begun.set()
        assert ended.wait(600)
        raise subprocess.TimeoutExpired(words, drafts.PLAN_TIMEOUT)

    monkeypatch.setattr(subprocess, "run", slow)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(post, application, fields)
        assert begun.wait(600)
        second = post(application, fields)
        ended.set()
        answer = first.result(600)
    assert (second.status, "another of these forms" in second.text) == (503, True)
    assert (answer.status, "on a machine of your own" in unescape(answer.text)) == (400, True)
    assert post(application, fields).status == 400  # it is free again


CONFINED = """
from pathlib import Path
from time import process_time
from stream_dp.services.monitor.planner import draft
draft.SECONDS = int(process_time()) + 2  # the imports above count too
draft.confine()
try:
    Path({path!r}).write_text("x")
except OSError:
    print("nothing is written", flush=True)
try:
    bytearray(draft.MEMORY)
except MemoryError:
    print("memory is bounded", flush=True)
while True:
    pass
"""


def test_a_draft_has_little_time_and_memory_and_writes_no_file(tmp_path) -> None:
    assert program.MEMORY <= 1 << 30
    code = CONFINED.format(path=str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["nothing is written", "memory is bounded"]
    assert done.returncode < 0


def test_the_drafts_process_knows_nothing_of_this_one(
    public: PublicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def run(words, **options):
        seen.update(options["env"], words=words)
        return subprocess.CompletedProcess(words, 0, '{"lines": ["x"]}', "")

    monkeypatch.setenv("STREAM_DP_KAFKA_SETTINGS", "/secret")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Exception, match="x"):
        drafts.plan_draft("text", PlanRequest())
    assert not [key for key in seen if key.startswith("STREAM_DP_")]
    assert "text" not in seen["words"]
