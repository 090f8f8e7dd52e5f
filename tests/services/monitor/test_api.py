"""The API and the downloads: the client's own numbers, in every format, and nothing else."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from kit.json_schemas import validate
from kit.monitors import Monitor

from stream_dp.client import PublicLog
from stream_dp.planning.expected_errors import group_table
from stream_dp.services.monitor.group_chart import published_group_errors

QUERIES = [
    ("pairs", "pattern full ?", "2021-03", "share"),
    ("pairs", "pattern full ?", "2021-03", "count"),
    ("both", "at-least 1 of last 2 full", None, "share"),
    ("months", "total at-least 2", "2021-04", "count"),
]


def data(monitor: Monitor, path: str) -> dict[str, object]:
    status, body = monitor.get(path)
    assert status == 200, body
    read: dict[str, object] = json.loads(body)
    return read


@pytest.mark.parametrize(("name", "query", "period", "measure"), QUERIES)
def test_estimates_are_the_clients(
    served: Monitor, public: PublicLog, name: str, query: str, period: str | None, measure: str
) -> None:
    asked = f"/api/v1/estimate?release={name}&query={quote(query)}&measure={measure}"
    answer = data(served, asked + (f"&period={period}" if period else ""))
    expected = public.answer(name, query, period, count=measure == "count").as_dict()
    assert answer == {**json.loads(json.dumps(expected)), "head": public.head}


@pytest.mark.parametrize("measure", ["share", "count"])
@pytest.mark.parametrize("query", ["people: work=full", "group: region=n"])
def test_data_sets_answer_as_the_client_does(
    served: Monitor, public: PublicLog, query: str, measure: str
) -> None:
    asked = f"/api/v1/estimate?release=homes&query={quote(query)}&measure={measure}"
    answer = data(served, asked)
    expected = public.answer("homes", query, count=measure == "count")
    assert answer == {**json.loads(json.dumps(expected.as_dict())), "head": public.head}
    status, page = served.get(f"/data/homes?q={quote(query)}&measure={measure}")
    form = "{:,.0f}" if measure == "count" else "{:.2%}"
    assert (status, form.format(expected.value) in page.decode()) == (200, True)
    wrong = "/data/homes?q=wrok%3Dfull"
    assert "did you mean" in served.get(wrong)[1].decode()


def test_a_curve_has_the_answer_of_every_period(served: Monitor, public: PublicLog) -> None:
    curve = data(served, "/api/v1/curve?release=pairs&query=pattern%20full")
    periods = public.periods_with("pairs", "pattern full")
    assert periods[0] < public.periods_of("pairs")[0]  # the first window answers for it
    expected = [public.answer("pairs", "pattern full", p).as_dict() for p in periods]
    assert curve["answers"] == json.loads(json.dumps(expected))
    assert (curve["band"], curve["levels"]) == ("pointwise", [0.5, 0.8, 0.95])
    fans: Any = curve["fan"]
    assert [fan[-1] for fan in fans] == [pytest.approx(a["interval"]) for a in expected]
    wider = data(served, "/api/v1/curve?release=pairs&query=pattern%20full&band=simultaneous")
    joint = public.answers([("pairs", "pattern full", period) for period in periods])
    for level, (low, high) in enumerate(joint.bands([0.5, 0.8, 0.95])):
        ends: Any = [fan[level] for fan in wider["fan"]]  # type: ignore[attr-defined]
        assert ends == [pytest.approx(pair) for pair in zip(low, high, strict=True)]


def test_two_answers_are_compared(served: Monitor, public: PublicLog) -> None:
    asked = "release=pairs&query=pattern%20full&period=2021-04&other_period=2021-02&measure=count"
    answer = data(served, f"/api/v1/compare?{asked}")
    first, second = (("pairs", "pattern full", period) for period in ("2021-04", "2021-02"))
    difference = public.answers([first, second], count=True).difference(0, 1).as_dict()
    keys = ("value", "standard_error", "interval")
    assert answer["difference"] == {key: difference[key] for key in keys}
    assert 0 <= answer["noise_alone"] <= 1  # type: ignore[operator]
    page = served.get("/compare/pairs?q=pattern+full&period=2021-04&period2=2021-02&measure=count")
    assert (page[0], str(answer["verdict"]) in page[1].decode()) == (200, True)


def test_a_refused_comparison_keeps_the_form(served: Monitor) -> None:
    status, page = served.get("/compare/pairs?q=pattern+wrong")
    assert status == 400
    assert "is no value; the values are" in page.decode()
    assert 'value="pattern wrong"' in page.decode()
    status, page = served.get("/ask/pairs?form=consecutive&need=many")
    assert (status, b"write how many periods as a number" in page, b"<form" in page) == (
        400,
        True,
        True,
    )


def test_study_releases_certificates_and_hashes(served: Monitor, public: PublicLog) -> None:
    assert data(served, "/api/v1/study")["study_hash"] == public.study.hash
    releases = data(served, "/api/v1/releases")
    assert [row["hash"] for row in releases] == [r.message.hash for r in public.published]  # type: ignore[index]
    for index, release in enumerate(public.published, 1):
        certificate = data(served, f"/api/v1/certificates/{index}")
        stated = json.loads(release.certificate.model_dump_json())
        assert {k: certificate[k] for k in stated} == stated
    verified = data(served, "/api/v1/verify")
    assert verified["verified"] == public.verify()
    assert verified["messages"] == [message.hash for message in public.messages]
    privacy = data(served, "/api/v1/privacy")
    assert privacy["rho_spent"] == str(public.published[-1].certificate.rho_spent)
    assert privacy["group_errors"] == group_table(public.study, published_group_errors(public))
    assert data(served, "/api/v1/queries") == {
        name: public.queries(name) for name in [*(r.name for r in public.study.releases), "homes"]
    }


ASKED = {
    "/api/v1/estimate": "?release=pairs&query=pattern%20full",
    "/api/v1/curve": "?release=pairs&query=pattern%20full",
    "/api/v1/compare": "?release=pairs&query=pattern%20full&other_query=pattern%20no",
}


def test_every_path_of_the_api_is_described(served: Monitor) -> None:
    paths = data(served, "/openapi.json")["paths"]
    assert isinstance(paths, dict)
    page = served.get("/api")[1].decode()
    for path, operations in paths.items():
        assert path in page
        assert all(operation["description"] for operation in operations.values())


def test_every_answer_has_its_stated_type(served: Monitor) -> None:
    document: Any = data(served, "/openapi.json")
    for path in [path for path in document["paths"] if path.startswith("/api/")]:
        answers = document["paths"][path]["get"]["responses"]
        stated = answers["200"]["content"]["application/json"]["schema"]
        assert stated, path
        answer = data(served, path.replace("{index}", "1") + ASKED.get(path, ""))
        validate(answer, {**stated, "components": document["components"]})


def test_every_answer_has_a_stated_kind_and_every_method_its_alternative(served: Monitor) -> None:
    """A file's kind, a refusal's status, and what an address allows."""
    paths: Any = data(served, "/openapi.json")["paths"]
    names = {
        "{kind}/{name}.{form}": "data/homes.csv?column=people:work",
        "{release}/{table}.{form}": "homes/people.parquet",
        "metadata/{name}": "metadata/ddi.xml",
        "{index}": "1",
    }
    for path in paths.keys() - {"/events"}:
        stated = paths[path]["get"]["responses"]
        address, missing = path, path
        for name, known in names.items():
            address = address.replace(name, known)
            missing = missing.replace(name, "none" if name == "{index}" else known + "x")
        address += ASKED.get(path, "")
        answer = served.answer(address)
        assert (answer.status, address) == (200, address)
        assert answer.headers.get_content_type() in stated["200"]["content"]
        if missing != path:
            assert str(served.answer(missing).status) in stated, missing
        refused = served.answer(address, "DELETE")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert "text/event-stream" in paths["/events"]["get"]["responses"]["200"]["content"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/study", 200),
        ("/openapi.json", 200),
        ("/download/pairs/panel.csv", 200),
        ("/api/v1/none", 404),
        ("/api/v1/estimate?release=pairs&query=nothing", 400),
        ("/download/pairs/panel.exe", 404),
        ("/api/v1/estimate?" + "x" * 5000, 414),
        ("/", 200),
    ],
)
def test_any_page_may_read_the_api_and_nothing_else(
    served: Monitor, path: str, status: int
) -> None:
    answer = served.answer(path)
    assert answer.status == status
    allowed = answer.headers.get_all("Access-Control-Allow-Origin", [])
    assert allowed == ([] if path == "/" else ["*"])


READ = {
    "csv": lambda body, schema: pa.csv.read_csv(
        io.BytesIO(body), convert_options=pa.csv.ConvertOptions(column_types=schema)
    ),
    "parquet": lambda body, schema: pa.parquet.read_table(io.BytesIO(body)),
    "arrow": lambda body, schema: pa.ipc.open_file(body).read_all(),
    "json": lambda body, schema: pa.Table.from_pylist(json.loads(body)),
}


@pytest.mark.parametrize("form", READ)
def test_downloads_are_the_published_tables(served: Monitor, public: PublicLog, form: str) -> None:
    groups, people = public.data_set("homes").tables
    tables = {
        "/download/pairs/panel": public.panel("pairs").table(),
        "/download/pairs/measurements": public.measurements("pairs"),
        "/download/both/estimates": public.estimates("both"),
        "/download/homes/groups": groups,
        "/download/homes/people": people,
        "/download/homes/measurements": public.data_set("homes").measurements,
    }
    for path, table in tables.items():
        status, body = served.get(f"{path}.{form}")
        assert status == 200, path
        assert READ[form](body, table.schema).to_pylist() == table.to_pylist(), path
    status, body = served.get(f"/download/pairs/panel.{form}?period=2021-02")
    table = public.panel("pairs", "2021-02").table()
    assert READ[form](body, table.schema).to_pylist() == table.to_pylist()


def test_a_download_has_the_label_of_its_period_in_its_name(
    served: Monitor, public: PublicLog
) -> None:
    wide = "".join(chr(ord(character) + 0xFEE0) for character in "2021-02")
    for text in ("2021-02", "Feb 2021", wide, "2021-02\r\n"):
        answer = served.answer(f"/download/pairs/panel.csv?period={quote(text)}")
        name = f"{public.study.name}-pairs-panel-2021-02.csv"
        assert (answer.status, answer.headers["Content-Disposition"]) == (
            200,
            f'attachment; filename="{name}"',
        )


def test_what_is_asked_wrong_is_one_line(served: Monitor) -> None:
    for path, status in {
        "/api/v1/estimate?release=pairs&query=nothing": 400,
        "/api/v1/estimate?release=none&query=pattern%20full": 404,
        "/api/v1/estimate?release=pairs": 400,
        "/api/v1/estimate?release=pairs&query=" + "x" * 600: 400,
        "/api/v1/certificates/0": 404,
        "/api/v1/certificates/99999999999999999999": 404,
        "/api/v1/none": 404,
        "/download/pairs/panel.exe": 404,
        "/download/pairs/groups.csv": 404,
        "/download/homes/panel.csv": 404,
        "/download/pairs/panel.csv?period=1999-01": 404,
    }.items():
        got, body = served.get(path)
        assert got == status, path
        assert len(json.loads(body)["lines"]) == 1, path


def test_a_head_never_changes(served: Monitor, public: PublicLog) -> None:
    etag = f'"{public.head[:32]}"'
    assert served.get("/", {"If-None-Match": etag}) == (304, b"")
    assert served.get("/", {"If-None-Match": '"other"'})[0] == 200
    assert served.get("/", {"If-None-Match": f"W/{etag}"})[0] == 304
    assert served.get("/", method="HEAD") == (200, b"")


def test_a_body_of_text_is_sent_packed_where_it_is_taken(served: Monitor) -> None:
    for path in ("/", "/api/v1/privacy", "/figure/data/homes.svg?column=people:work"):
        status, whole = served.get(path)
        packed = served.get(path, {"Accept-Encoding": "gzip"})
        assert (status, packed[0], gzip.decompress(packed[1])) == (200, 200, whole)
        assert len(packed[1]) < len(whole) / 2
        assert served.get(path, {"Accept-Encoding": "br, gzip;q=0"}) == (200, whole)
    picture = "/figure/data/homes.png?column=people:work"
    assert served.get(picture, {"Accept-Encoding": "gzip"}) == served.get(picture)
