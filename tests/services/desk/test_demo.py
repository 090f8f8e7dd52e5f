"""The demo end to end, with real noise: 8 standard errors, which no sound demo exceeds."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from stream_dp.client import PublicLog
from stream_dp.log import open_log
from stream_dp.panel import Symbols
from stream_dp.services.commands import cli
from stream_dp.services.desk import demo
from stream_dp.services.evaluate import simulated_panels
from stream_dp.services.process.command_output import Output


@dataclass(frozen=True)
class Shown:
    """A finished demo in a folder whose name has a space, and what it printed."""

    out: Path
    lines: list[str]
    output: Output
    public: PublicLog
    truth: Symbols


EXTRAS = ("resvg_py", "confluent_kafka", "fastapi", "uvicorn")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Everything works, the page too, where no extra is installed."""
    out, outputs, run = tmp_path_factory.mktemp("demo") / "my demo", list[Output](), demo.run

    def kept(options: argparse.Namespace) -> Output:
        outputs.append(run(options))
        return outputs[-1]

    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        for extra in EXTRAS:
            patch.setitem(sys.modules, extra, None)
        patch.setattr(demo, "run", kept)
        patch.setattr(sys.stdout, "write", written.append)
        assert cli.main(["demo", "--out", str(out)]) == 0
    public = PublicLog(open_log("sqlite:poverty-public.db", out, public=True, readonly=True))
    lines = "".join(written).splitlines()
    return Shown(out, lines, outputs[0], public, simulated_panels.poverty(demo.SEED))


def test_logs_verify_against_each_other(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(shown.out / "poverty.toml")]) == 0
    assert "journal and public log agree" in capsys.readouterr().out
    assert len(shown.public.releases_of("quarters")) == 10
    assert len(shown.public.releases_of("months-in-poverty")) == 12
    assert shown.public.releases[-1].certificate.rho_spent == shown.public.study.rho


def test_the_noise_is_the_systems(shown: Shown) -> None:
    assert all("operating system" in r.certificate.noise for r in shown.public.releases)
    assert "SIMULATED" in shown.public.study.description


def test_quarters_are_near_the_truth(shown: Shown) -> None:
    for end in (3, 6, 9, 12):
        window = shown.truth[:, end - 3 : end]
        label = shown.public.study.periods.labels[end - 1]
        for least in (1, 2, 3):
            answer = shown.public.answer("quarters", f"at-least {least} of last 3 poverty=1", label)
            true = (window.sum(axis=1) >= least).mean()
            assert abs(answer.value - true) < 8 * answer.standard_error
            assert 0 < answer.standard_error < 0.01


def test_totals_are_near_the_truth(shown: Shown) -> None:
    so_far = shown.truth.cumsum(axis=1, dtype=np.int64)
    for t, label in enumerate(shown.public.study.periods.labels):
        for b in sorted({1, (t + 2) // 2, t + 1}):
            query = f"total at-least {b}"
            answer = shown.public.answer("months-in-poverty", query, label, count=True)
            true = int((so_far[:, t] >= b).sum())
            assert abs(answer.value - true) < 8 * answer.standard_error


def test_five_lines_whose_commands_run(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shown.lines) == 5
    assert "SIMULATED" in shown.lines[0]
    assert str(shown.out) in shown.lines[0]
    for line in shown.lines[2:]:
        program, *arguments = shlex.split(line.partition(":")[2])
        assert program == "stream-dp"
        assert cli.main(arguments) == 0, capsys.readouterr().err
    (shown.out / "panel.csv").unlink()


def test_the_readme_s_question_is_the_printed_one(shown: Shown) -> None:
    asked = [word.replace(str(shown.out), "stream-dp-demo") for word in shlex.split(shown.lines[2])]
    readme = Path(__file__).parents[3] / "README.md"
    lines = readme.read_text("utf-8").splitlines()
    questions = [shlex.split(line) for line in lines if line.startswith("$ ")]
    assert questions == [["$", *asked[1:]]]


def test_page_is_one_file(shown: Shown) -> None:
    text = (shown.out / "index.html").read_text("utf-8")
    outside = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "http://" not in outside
    assert "https://" not in outside
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|\bsrc=", text)
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', text))
    assert "simulated" in text.lower()
    assert not re.search(r"\{\{|\{%|\bstyle=", text)
    assert shown.public.head in text


class _Figures(HTMLParser):
    """Ids, references to ids, and the words of every figure."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.words: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            self.words.append(attributes.get("aria-label"))


def test_figures_have_words_and_ids_of_their_own(shown: Shown) -> None:
    text = (shown.out / "index.html").read_text("utf-8")
    figures = _Figures()
    figures.feed(text)
    assert len(figures.words) == 12
    assert all(figures.words)
    assert len(figures.ids) == len(set(figures.ids))
    referred = re.findall(r'href="#([^"]*)"', text) + re.findall(r"url\(#([^)]*)\)", text)
    assert set(referred) <= set(figures.ids)


def test_page_repeats_to_the_byte(shown: Shown) -> None:
    from stream_dp.services.desk.demo import page

    drawn = page(shown.public, shown.truth)
    assert drawn == (shown.out / "index.html").read_text("utf-8")


def test_a_folder_in_use_is_left_alone(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in shown.out.iterdir()}
    assert cli.main(["demo", "--out", str(shown.out)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert before == {path: path.stat().st_mtime_ns for path in shown.out.iterdir()}


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("kept")
    assert cli.main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert cli.main(["demo", "--out", str(tmp_path / "file" / "below")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert (tmp_path / "file").read_text() == "kept"


def test_another_log_in_the_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STREAM_DP_LOG", f"sqlite:{tmp_path}/real.db")
    assert cli.main(["demo", "--out", str(tmp_path / "out")]) == 2
    assert "STREAM_DP_" in capsys.readouterr().err
    assert not (tmp_path / "real.db").exists()
    assert not list((tmp_path / "out").iterdir())


def test_json(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", lambda options: shown.output)
    assert cli.main(["demo", "--out", str(shown.out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert all(Path(data[name]).exists() for name in ("study", "reports", "log", "public", "page"))
    public = PublicLog(open_log(f"sqlite:{data['public']}", Path(), public=True, readonly=True))
    assert data["head"] == public.head
    assert data["head"] in Path(data["page"]).read_text("utf-8")
