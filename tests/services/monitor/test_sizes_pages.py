"""The monitor of a study of sizes of places: its pages, downloads, and the exported page."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from kit.monitors import Monitor, monitor
from kit.movers import DUE, moves_public, region

from stream_dp.client import PublicLog
from stream_dp.client import open as open_public
from stream_dp.services.commands import cli

WHERE = ["all regions", "c0", "c1", *("/".join(region(i)) for i in range(6))]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return moves_public(tmp_path_factory.mktemp("moves"))


@pytest.fixture(scope="module")
def moves(address: str) -> Iterator[Monitor]:
    with monitor(address) as one:
        yield one


@pytest.fixture(scope="module")
def public(address: str) -> PublicLog:
    return open_public(address)


def test_the_page_has_a_chart_and_the_numbers_of_each_region(
    moves: Monitor, public: PublicLog
) -> None:
    for period in (None, *DUE):
        status, body = moves.get("/data/blocks" + (f"?period={period}" if period else ""))
        text, sizes = body.decode(), public.sizes("blocks", period)
        assert status == 200
        assert text.count("<figure>") == len(WHERE)
        for where in WHERE:
            assert f"Sizes in {where}, " in text
            path = () if where == "all regions" else tuple(where.split("/"))
            own = sizes.region(*path)
            for size, groups in zip(own.size, own.groups, strict=True):
                assert f'<th scope="row">{size}</th><td>{groups:,}</td>' in text
        for level in ("all", "county", "tract"):
            assert f"{level}: " in text
    front = moves.get("/")[1].decode()
    assert "How many blocks have each number of people, in every region." in front
    assert '/data/blocks"' in front
    assert moves.get("/downloads")[1].decode().count("/download/blocks/") >= 8


def test_without_outlines_there_is_no_map(moves: Monitor) -> None:
    assert b'id="map"' not in moves.get("/data/blocks")[1]
    assert moves.get("/figure/map/blocks.svg")[0] == 404


def test_sizes_are_asked_on_their_page_and_by_the_api(moves: Monitor, public: PublicLog) -> None:
    for where in ((), ("c0",), region(3)):
        path = "/".join(where)
        answer = public.answer("blocks", "at-least 2", region=where or None)
        page = moves.get(f"/data/blocks?q=at-least%202&region={path}")[1].decode()
        assert f"<strong>{answer.value:,.0f}</strong>" in page
        low, high = answer.ends
        known = answer.interval is not None
        assert (f"95% interval {low:,.0f} to {high:,.0f}" in page) == known
        assert ("No error is known" in page) != known
        body = moves.get(f"/api/v1/estimate?release=blocks&query=at-least%202&region={path}")[1]
        assert json.loads(body) == {**answer.as_dict(), "head": public.head}
    assert "No error is known" in moves.get("/data/blocks?q=quantile%201/2")[1].decode()


def test_sizes_are_asked_with_a_form(moves: Monitor, public: PublicLog) -> None:
    for form, query in (("at-least", "at-least 2"), ("size", "size 2")):
        answer = public.answer("blocks", query)
        page = moves.get(f"/data/blocks?form={form}&n=2&region=")[1].decode()
        assert f"<strong>{max(answer.value, 0):,.0f}</strong>" in page
        assert page.index('id="answer"') < page.index("<h2>Sizes</h2>")
    assert moves.get("/data/blocks?form=size&n=-2")[0] == 400
    status, page_of_both = moves.get(
        f"/compare/blocks?q=at-least+2&period={DUE[-1]}&period2={DUE[0]}"
    )
    assert (status, b"blocks" in page_of_both) == (200, True)


def test_what_cannot_be_asked_of_sizes_is_refused_in_words(moves: Monitor) -> None:
    for path in (
        "/data/blocks?q=people:%20home=b001",
        "/data/blocks?pair=a:b:c",
        "/data/blocks?period=2021-01",
        "/api/v1/estimate?release=blocks&query=median",
        "/api/v1/curve?release=blocks&query=mean",
        "/release/blocks",
        "/download/blocks/panel.csv",
        "/download/blocks/people.csv",
    ):
        status, body = moves.get(path)
        assert 400 <= status < 500, (path, status)
        assert b"Traceback" not in body


def read(form: str, body: bytes) -> pa.Table:
    match form:
        case "csv":
            return pyarrow.csv.read_csv(io.BytesIO(body))
        case "parquet":
            return pyarrow.parquet.read_table(io.BytesIO(body))
        case "arrow":
            return pyarrow.ipc.open_file(body).read_all()
    return pa.Table.from_pylist(json.loads(body))


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "json"])
def test_downloads_are_the_published_tables(moves: Monitor, public: PublicLog, form: str) -> None:
    for period in (None, DUE[0]):
        sizes = public.sizes("blocks", period)
        for name, table in (("sizes", sizes.table), ("measurements", sizes.measurements)):
            query = f"?period={period}" if period else ""
            status, body = moves.get(f"/download/blocks/{name}.{form}{query}")
            assert status == 200
            rows = read(form, body).to_pylist()
            for row in rows:  # text tables have nothing for what a region does not have
                row |= {k: v or None for k, v in row.items() if k in ("county", "tract")}
            assert rows == table.to_pylist()


def test_the_exported_page_has_a_chart_for_each_region(address: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert cli.main(["page", address, str(out)]) == 0
    text = out.read_text("utf-8")
    for where in WHERE:
        assert f"Sizes in {where}, " in text
