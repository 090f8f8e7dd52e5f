"""Figures to take away: formats, numbers, headers, and previews of links."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.csv
import pytest
from kit.monitors import Monitor, monitor

from stream_dp.client import PublicLog
from stream_dp.figures.marks import Box, Chart
from stream_dp.services.commands import cli
from stream_dp.services.monitor.charts import Bar, Line, Look, bars, curves
from stream_dp.services.monitor.figure_files import figure_picture, source_line

URL = "https://work.example.org"
FIGURES = (
    "release/pairs?q=at-least+1+of+last+2+work%3Dfull",
    "release/both?q=pattern+full&band=simultaneous&panel=1",
    "totals/months",
    "compare/pairs?q=pattern+full",
    "data/homes?column=people:work",
    "data/homes?pair=groups:region:size",
)


@pytest.fixture(scope="module")
def named(log_file: Path) -> Iterator[Monitor]:
    with monitor(f"sqlite:{log_file}", "--url", URL + "/") as one:
        yield one


def figure(address: str, form: str) -> str:
    path, _, fields = address.partition("?")
    return f"/figure/{path}.{form}?{fields}"


@pytest.mark.parametrize("address", FIGURES)
def test_every_figure_comes_in_three_formats_and_a_frame(named: Monitor, address: str) -> None:
    status, body = named.get(figure(address, "png"))
    assert (status, body[:8]) == (200, b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", body[16:24]) == (1200, 630)
    status, body = named.get(figure(address, "svg"))
    drawing = ElementTree.fromstring(body)
    title, description = (drawing.findtext(f"{{*}}{tag}") for tag in ("title", "desc"))
    assert (status, bool(title), bool(description)) == (200, True, True)
    assert len(pa.csv.read_csv(io.BytesIO(named.get(figure(address, "csv"))[1]))) > 1
    status, body = named.get(f"/embed/{address}")
    text = unescape(body.decode())
    assert status == 200
    assert str(title) in text
    assert str(description) in text
    assert "<script" not in text
    assert f'href="{URL}/' in text


def test_numbers_of_csv_are_the_clients(named: Monitor, public: PublicLog) -> None:
    rows = pa.csv.read_csv(io.BytesIO(named.get(figure(FIGURES[0], "csv"))[1])).to_pylist()
    for row in rows:
        answer = public.answer("pairs", row["query"], row["period"])
        assert (row["value"], row["standard_error"]) == (answer.value, answer.standard_error)
        assert (row["low_95"], row["high_95"]) == pytest.approx(answer.interval)
        assert row["low_95"] < row["low_80"] < row["low_50"] < row["value"] < row["high_50"]
    rows = pa.csv.read_csv(io.BytesIO(named.get(figure(FIGURES[3], "csv"))[1])).to_pylist()
    assert [row["answer"] for row in rows][:3] == ["first", "second", "difference"]
    assert rows[2]["value"] == pytest.approx(rows[0]["value"] - rows[1]["value"])


def test_a_frame_may_be_anywhere_and_pages_nowhere(named: Monitor) -> None:
    for path, framed, shown in (
        (f"/embed/{FIGURES[0]}", True, True),
        (figure(FIGURES[0], "png"), False, True),
        ("/", False, False),
        ("/release/pairs", False, False),
    ):
        headers = named.answer(path).headers
        policy = headers["content-security-policy"]
        assert ("frame-ancestors *" in policy) == framed
        assert "default-src" in policy
        assert (headers["cross-origin-resource-policy"] == "cross-origin") == shown


def test_a_link_has_a_preview(named: Monitor) -> None:
    for path in ("/", "/release/pairs", f"/{FIGURES[0]}", f"/{FIGURES[3]}", f"/{FIGURES[5]}"):
        text = unescape(named.get(path)[1].decode())
        (image,) = re.findall(r'property="og:image" content="([^"]+)"', text)
        assert image.startswith(URL + "/figure/")
        assert named.get(image.removeprefix(URL))[1][:4] == b"\x89PNG"
        assert re.findall(r'property="og:description" content="[^"]+"', text)


@pytest.mark.parametrize(
    ("path", "status", "line"),
    [
        ("/figure/release/pairs.exe?q=pattern+full", 404, "there are svg, png, csv"),
        ("/figure/none/pairs.svg", 404, "there is no kind"),
        ("/figure/release/pairs.svg", 400, "name a question"),
        ("/figure/release/pairs.svg?q=nothing", 400, "not understood"),
        ("/figure/totals/pairs.svg", 404, "has no totals"),
        ("/figure/data/homes.svg?column=people:none", 404, "has no column"),
        ("/figure/data/homes.svg?pair=people:none:work", 400, "has no two columns"),
        ("/figure/compare/none.svg", 404, "nothing is published"),
    ],
)
def test_what_is_no_figure_is_refused_in_a_line(
    named: Monitor, path: str, status: int, line: str
) -> None:
    got, body = named.get(path)
    assert (got, line in body.decode()) == (status, True)


def test_the_url_of_a_monitor_is_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["monitor", "sqlite:x.db", "--url", "work.example.org"]) == 2
    assert "write it as https://HOST" in capsys.readouterr().err


def test_a_picture_is_escaped_and_repeats_to_the_byte() -> None:
    line = Line("t", ())
    made = figure_picture(
        "<b>$x_1$ " + "long " * 60,
        "<script>",
        "head",
        lambda size: curves([line], ["p"], Look("<i>"), size),
    )
    assert "<script>" not in made.svg()
    assert made.svg().count("…") == 1
    assert made.png() == made.png()


def test_names_of_bars_are_whole_in_two_lines_and_cut_after_them() -> None:
    name = "not in the labour force, in education"
    made = str(bars([Bar(name, 0.4), Bar("work", 0.6)], "share", "d").__html__())
    assert "…" not in made
    assert [made.count(f">{line}<") for line in ("not in the labour force,", "in education")] == [
        1
    ] * 2
    assert bars([Bar("long " * 40, 0.4)], "share", "d").__html__().count("…") == 1
    (short,) = (b for b in bars([Bar("work", 1.0)], "share", "d").marks if isinstance(b, Box))
    assert short.x == 110


def test_the_last_lines_of_a_picture_have_source_and_licence() -> None:
    curator = SimpleNamespace(name="Office of Statistics", licence="CC-BY-4.0")
    made = SimpleNamespace(
        name="work", description="SIMULATED people", curator=curator, unit="person"
    )
    release = SimpleNamespace(certificate=SimpleNamespace(epsilon_spent="0.6217"))
    public = SimpleNamespace(study=made, published=[release])
    state = SimpleNamespace(simulated=False, url="", head="ab" * 32, public=public)
    line = source_line(state)  # type: ignore[arg-type]
    assert line.startswith("SIMULATED DATA. work, Office of Statistics, CC-BY-4.0: differential")
    assert "eps 0.622 for a person's whole history" in line
    state.simulated = True
    assert "SIMULATED NOISE. " in (told := source_line(state))  # type: ignore[arg-type]
    assert "eps" not in told
    picture = figure_picture("t", "r", line, lambda size: Chart(*size, "d", ()))
    shown = " ".join(ElementTree.fromstring(picture.svg()).itertext())
    assert " ".join(shown.split()).endswith(f"head {'ab' * 8}")
