"""Maps of sizes by region: from a file of outlines, on the page and as files to take away."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from statistics import NormalDist

import pytest
from kit.monitors import Monitor
from kit.movers import region

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
def public(mapped_folder: Path) -> PublicLog:
    return open_public(f"sqlite:{mapped_folder / 'moves-public.db'}")


def test_a_map_has_each_region_with_its_answer(mapped_folder: Path, public: PublicLog) -> None:
    outlines = read_outlines(mapped_folder / "tracts.geojson")
    shown = region_map(public, outlines, "blocks", None, "at-least 2")
    assert shown is not None
    assert {one.region for one in shown.regions} == set(PATHS)
    for one in shown.regions:
        answer = public.answer("blocks", "at-least 2", region=one.region)
        assert (one.answer.value, one.answer.interval) == (answer.value, answer.interval)
        assert one.value == pytest.approx(min(1.0, max(0.0, answer.value / one.groups)))
    assert shown.title == "Share of blocks with at least 2 people"
    assert len([m for m in shown.drawn((600, 300)).marks if m.style.startswith("region")]) == 11


def test_marks_are_beyond_the_noise_of_all_regions(mapped_folder: Path, public: PublicLog) -> None:
    shown = region_map(
        public, read_outlines(mapped_folder / "tracts.geojson"), "blocks", None, "mean"
    )
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
