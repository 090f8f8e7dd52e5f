"""Maps of sizes by region: from a file of outlines, on the page and as files to take away."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist

import pytest
from kit.monitors import Monitor, monitor
from kit.movers import moves_public, region
from kit.outlines import write_outlines
from kit.tools import axe_core

from stream_dp.client import PublicLog
from stream_dp.client import open as open_public
from stream_dp.services.commands import cli
from stream_dp.services.monitor.region_map import _rings, read_outlines, region_map


def _triangle(number: str) -> str:
    """A file with a number as a coordinate."""
    ring = f"[[[{number}, 0], [1, 0], [1, 1]]]"
    return (
        f'{{"features": [{{"id": "a", "geometry": {{"type": "Polygon", "coordinates": {ring}}}}}]}}'
    )


PATHS = sorted({region(i) for i in range(6)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped")
    moves_public(folder)
    write_outlines(folder / "tracts.geojson", ["/".join(path) for path in PATHS[:-1]] + ["t5"])
    return folder


@pytest.fixture(scope="module")
def public(folder: Path) -> PublicLog:
    return open_public(f"sqlite:{folder / 'moves-public.db'}")


@pytest.fixture(scope="module")
def mapped(folder: Path) -> Iterator[Monitor]:
    with monitor(
        f"sqlite:{folder / 'moves-public.db'}", "--map", str(folder / "tracts.geojson")
    ) as m:
        yield m


def test_a_map_has_each_region_with_its_answer(folder: Path, public: PublicLog) -> None:
    outlines = read_outlines(folder / "tracts.geojson")
    shown = region_map(public, outlines, "blocks", None, "at-least 2")
    assert shown is not None
    assert {one.region for one in shown.regions} == set(PATHS)
    for one in shown.regions:
        answer = public.answer("blocks", "at-least 2", region=one.region)
        assert (one.answer.value, one.answer.interval) == (answer.value, answer.interval)
        assert one.value == pytest.approx(min(1.0, max(0.0, answer.value / one.groups)))
    assert shown.title == "Share of blocks with at least 2 people"
    assert len([m for m in shown.drawn((600, 300)).marks if m.style.startswith("region")]) == 11


def test_marks_are_beyond_the_noise_of_all_regions(folder: Path, public: PublicLog) -> None:
    shown = region_map(public, read_outlines(folder / "tracts.geojson"), "blocks", None, "mean")
    assert shown is not None
    whole = public.answer("blocks", "mean")
    reach = NormalDist().inv_cdf(1 - 0.05 / 2 / len(shown.regions))
    for one in shown.regions:
        own, of_all = one.answer.standard_error, whole.standard_error
        if own is None or of_all is None:
            assert one.mark == ""
            continue
        distance = (one.answer.value - whole.value) / math.hypot(own, of_all)
        assert one.mark == ("▲" if distance > reach else "▼" if distance < -reach else "")


def test_the_page_has_the_map_of_the_question(mapped: Monitor) -> None:
    status, body = mapped.get("/data/blocks")
    assert status == 200
    page = body.decode()
    assert '<section class="card" id="map">' in page
    assert "Mean number of people in blocks" in page
    assert '/figure/map/blocks.png?q=mean&amp;period=2021-03"' in page
    page = mapped.get("/data/blocks?q=at-least+2")[1].decode()
    assert "Share of blocks with at least 2 people" in page
    assert 'property="og:image"' in page
    refused, body = mapped.get("/data/blocks?q=what")
    assert (refused, b"Mean number of people in blocks" in body) == (400, True)


def test_a_map_can_be_taken_away(mapped: Monitor, public: PublicLog) -> None:
    address = "/figure/map/blocks.{}?q=at-least+2"
    rows = list(csv.DictReader(io.StringIO(mapped.get(address.format("csv"))[1].decode())))
    for row in rows:
        answer = public.answer("blocks", "at-least 2", region=tuple(row["region"].split("/")))
        assert float(row["value"]) == pytest.approx(answer.value)
    assert len(rows) == len(PATHS)
    assert mapped.get(address.format("png"))[1].startswith(b"\x89PNG")
    assert mapped.get(address.format("svg"))[1].count(b'class="region map-') == 11
    assert b"<svg" in mapped.get("/embed/map/blocks?q=mean")[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"features": []}',
        '{"features": [{"id": "a", "geometry": {"type": "Point", "coordinates": [1, 2]}}]}',
        '{"features": [{"id": "a", "geometry": {"type": "Polygon", "coordinates": [[["x"]]]}}]}',
        '{"features": [{"id": "a", "geometry": {"type": "Polygon", "coordinates": [[[1e999, 0],'
        " [0, 0], [1, 1]]]}}]}",
        "[" * 100_000,
        _triangle("1" + "0" * 400),
        _triangle("1e308"),
        _triangle("NaN"),
    ],
)
def test_a_file_without_outlines_is_refused_in_a_line(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map.json").write_text(text)
    assert cli.main(["monitor", "sqlite:a.db", "--map", str(tmp_path / "map.json")]) == 2
    said = capsys.readouterr().err
    assert "is no GeoJSON FeatureCollection" in said
    assert said.count("\n") == 1


def test_holes_turn_against_their_outline() -> None:
    square, hole = ([[0, 0], [4, 0], [4, 4], [0, 4]], [[1, 1], [2, 1], [2, 2], [1, 2]])
    for coordinates in ([square, hole], [square[::-1], hole], [square, hole[::-1]]):
        outer, inner = _rings(
            json.loads(json.dumps({"type": "Polygon", "coordinates": coordinates}))
        )
        turns = [
            sum(x * v - u * y for (x, y), (u, v) in zip(r, r[1:] + r[:1], strict=True))
            for r in (outer, inner)
        ]
        assert turns[0] * turns[1] < 0


def test_a_page_with_a_map_fits_and_can_be_read_by_everybody(mapped: Monitor) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed; tests/tools can, as root")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page()
        page.goto(f"{mapped.url}/data/blocks?q=at-least+2")
        for width in (320, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe_core())
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("axe.run(document).then(r => r.violations.map(v => v.id))") == []
        browser.close()
