"""Descriptions that a monitor serves: of every download, with its address, for any page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
import rdflib
from kit.described_logs import LINE, described_messages
from kit.monitors import Monitor, monitor, publish
from rdflib import DCAT

from stream_dp.client import PublicLog
from stream_dp.study.field_types import is_formula

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
URL = "https://asked.example.org"
KINDS = {
    "/metadata": "application/ld+json",
    "/metadata/dcat.jsonld": "application/ld+json",
    "/metadata/croissant.json": "application/ld+json",
    "/metadata/datapackage.json": "application/json",
    "/metadata/ddi.xml": "application/xml",
    "/download/series.csv": "application/vnd.sdmx.data+csv;version=2.0.0",
}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    """A monitor that knows its own address, of a log with bad texts."""
    path = tmp_path_factory.mktemp("described") / "asked-public.db"
    publish(path, described_messages())
    with monitor(f"sqlite:{path}", "--url", URL) as one:
        yield one


def test_every_document_has_its_type_and_any_page_may_read_it(known: Monitor) -> None:
    for path, media in KINDS.items():
        answer = known.answer(path)
        assert answer.status == 200, path
        assert answer.headers["Content-Type"].replace("; charset=utf-8", "") == media
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert known.get("/metadata") == known.get("/metadata/dcat.jsonld")
    status, body = known.get("/metadata/none.json")
    assert (status, "metadata: no such document" in body.decode()) == (404, True)


def test_every_address_is_a_download_of_this_monitor(known: Monitor) -> None:
    graph = rdflib.Graph().parse(data=known.get("/metadata")[1], format="json-ld")
    addresses = {str(one) for one in graph.objects(None, DCAT.downloadURL)}
    croissant = json.loads(known.get("/metadata/croissant.json")[1])
    assert croissant["isLiveDataset"] is True
    assert {file["contentUrl"] for file in croissant["distribution"]} == addresses
    package = json.loads(known.get("/metadata/datapackage.json")[1])
    paths = {resource["path"] for resource in package["resources"]}
    assert paths == {one for one in addresses if one.endswith(".csv")}
    book = ElementTree.fromstring(known.get("/metadata/ddi.xml")[1])
    assert {file.get("URI") for file in book.iter("{ddi:codebook:2_5}fileDscr")} == paths
    for address in addresses:
        assert address.startswith(f"{URL}/download/")
        assert known.get(address.removeprefix(URL))[0] == 200, address
    for resource in package["resources"]:
        rows = csv.reader(io.StringIO(known.get(resource["path"].removeprefix(URL))[1].decode()))
        assert next(rows) == [field["name"] for field in resource["schema"]["fields"]]


def test_a_monitor_without_an_address_says_so(served: Monitor, public: PublicLog) -> None:
    status, body = served.get("/metadata/datapackage.json")
    lines: Any = json.loads(body)["lines"]
    assert (status, len(lines)) == (404, 1)
    assert "start it with --url https://HOST" in lines[0]
    croissant = json.loads(served.get("/metadata/croissant.json")[1])
    files = {file["contentUrl"] for file in croissant["distribution"]}
    assert "../download/homes/people.csv" in files
    assert "Release homes: people" in {one["description"] for one in croissant["recordSet"]}
    page = served.get("/downloads")[1].decode()
    for path in KINDS.keys() - {"/metadata", "/metadata/datapackage.json"}:
        assert f'href="{path}"' in page
    assert "datapackage" not in page


def test_bad_texts_run_nowhere(known: Monitor) -> None:
    """Quotes, ends of scripts and formulas stay text in every document and page."""
    for path in ("/", "/downloads"):
        page = known.get(path)[1].decode()
        assert "<script>alert" not in page
        assert '<link rel="describedby"' in page
    book = ElementTree.fromstring(known.get("/metadata/ddi.xml")[1])
    assert {one.tag.partition("}")[0] for one in book.iter()} == {"{ddi:codebook:2_5"}
    croissant = json.loads(known.get("/metadata/croissant.json")[1])
    assert LINE in croissant["description"]
    assert croissant["creator"]["name"] == f"Agência {LINE}"
    rows = csv.reader(io.StringIO(known.get("/download/series.csv")[1].decode()))
    assert not any(is_formula(cell) for row in rows for cell in row)
