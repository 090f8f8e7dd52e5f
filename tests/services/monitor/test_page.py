"""`stream-dp page`: one file of any public log, whose numbers are the client's own."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from pathlib import Path

import pytest
from kit.hostile import drafts, sealed, sound
from kit.public_logs import TopicInMemory
from kit.verifiers import VERIFIER

from stream_dp.client import PublicLog
from stream_dp.services.commands import cli
from stream_dp.services.monitor.answers_for_people import for_people
from stream_dp.services.monitor.charts import figure
from stream_dp.services.monitor.record_rows import held_and_absent
from stream_dp.services.monitor.release_figures import look_of
from stream_dp.services.monitor.study_page import study_page


@pytest.fixture(scope="module")
def public() -> PublicLog:
    """Three panels of four periods and a data set."""
    return PublicLog(TopicInMemory(sealed(drafts(sound()))))


@pytest.fixture(scope="module")
def text(public: PublicLog) -> str:
    return study_page(public)


def test_the_page_is_one_file_without_styles_of_elements(text: str) -> None:
    page = re.sub(r'<script type="module">.*?</script>', "", text, flags=re.S)
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|\bsrc=|https?://", page)
    assert not re.search(r"\sstyle=|\son\w+=|javascript:", page)


def test_the_policy_allows_the_verifier_and_the_style_alone(text: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, flags=re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.S)
    digests = [
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, *reversed(scripts))
    ]
    assert scripts[0] == VERIFIER.read_text("utf-8")
    assert unescape(policy).split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digests[0]}'",
        f"script-src 'sha256-{digests[1]}' 'sha256-{digests[2]}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_every_release_is_there_with_its_chart_and_its_table(public: PublicLog, text: str) -> None:
    declared = [*public.study.releases, *(public.study.batches or ())]
    for release in declared:
        assert f"<h2>{release.name}</h2>" in text
    charts = re.findall(r'<svg [^>]*role="img" aria-label="([^"]+)"', text)
    assert len(charts) >= 10
    assert len(re.findall(r"<table class=\"numbers\">", text)) >= len(declared)


def test_numbers_are_those_of_the_client(public: PublicLog, text: str) -> None:
    plain = " ".join(re.sub(r"<[^>]+>", " ", unescape(text)).split())
    for name, query, count in (
        ("pairs", "pattern full", False),
        ("both", "at-least 1 of last 2 work=full", False),
        ("months", "total at-least 3", True),
    ):
        answer = for_people(public.answer(name, query, count=count), public.study.size)
        look = look_of(public, [], count=count)
        low, high = (figure(end, look) for end in answer.interval)
        error, panel = (figure(n, look) for n in (answer.standard_error, answer.synthetic))
        row = f"{answer.period} {figure(answer.value, look)} {low} to {high} {error} {panel}"
        assert row in plain, (name, query)


def test_the_label_says_simulated_where_noise_is_seeded(text: str) -> None:
    assert "SIMULATED NOISE, NOT PRIVATE" in text


def test_the_page_repeats_to_the_byte(public: PublicLog, text: str) -> None:
    assert study_page(public) == text


def test_a_page_is_a_file_of_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["page", "sqlite:none.db", str(tmp_path / "page.txt")]) == 2
    assert "write it as .html" in capsys.readouterr().err
    assert cli.main(["page", f"sqlite:{tmp_path}/none.db", str(tmp_path / "page.html")]) == 2
    assert not (tmp_path / "page.html").exists()


def test_the_contents_lead_to_every_section(text: str) -> None:
    targets = re.findall(r'<a href="#([\w-]+)">', text)
    assert len(targets) > 5
    folded = re.findall(r'<details class="card" open>.*?<div id="([\w-]+)">', text, re.S)
    assert set(targets) <= set(folded)


def test_what_a_log_does_not_have_has_no_tick() -> None:
    held, absent = held_and_absent(["chain: 3 messages", "signatures: none; not signed"])
    assert (held, absent) == (["chain: 3 messages"], ["signatures: none; not signed"])


def test_a_cut_axis_is_named_in_the_picture(text: str) -> None:
    charts = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", text, re.S)
    charts = [svg for svg in charts if "estimate-line" in svg]
    assert charts
    for svg in charts:
        ticks = re.findall(r'class="tick"[^>]*text-anchor="end">([^<]+)<', svg)
        unit = re.findall(r'class="tick" x="0"[^>]*>([^<]+)<', svg)[0]
        lowest = float(ticks[0].replace("−", "-").replace(",", ""))
        assert (f"; axis from {ticks[0]}" in unit) == (lowest > 0)
