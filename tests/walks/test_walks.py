"""Four users walk through what they need: a statistician, an analyst, an engineer, a newsroom."""

from __future__ import annotations

import csv
import http.client
import io
import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from agency import MONTHS, Agency, command, proxy
from kit.monitors import Monitor, monitor
from kit.tools import needs

import stream_dp
from stream_dp.services.commands import cli

pytest.importorskip("fastapi")

CHROMIUM = shutil.which("chromium")
PROXY = "Behind a proxy with TLS"
OPERATOR = "The operator's monitor behind the proxy"


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Agency:
    """An agency that has released two months."""
    one = Agency(tmp_path_factory.mktemp("agency"))
    for month in MONTHS[:2]:
        one.release(month)
    return one


@pytest.fixture(scope="module")
def served(agency: Agency) -> Iterator[Monitor]:
    with monitor(agency.public) as one:
        yield one


def test_a_statistician_plans_sends_closes_and_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agency = Agency(tmp_path)
    assert cli.main(["check", str(agency.study)]) == 0
    assert "who is protected: one person" in capsys.readouterr().out
    query = "at-least 1 of last 2 out_of_work=yes"
    plan = command("plan", agency.study, "--query", query, "--error", "0.02")
    (planned, *_) = [row for row in plan["errors"] if row["period"] == MONTHS[1]]
    assert plan["needed"]["largest_half_width"] <= 0.02

    table = agency.folder / f"{MONTHS[0]}.csv"
    judged = command("send", agency.study, table, "--check")
    assert judged["checked"] == {str(table): 300}
    agency.release(MONTHS[0])
    status = command("status", agency.study)
    assert (status["last_closed"], status["open_period"]) == (MONTHS[0], MONTHS[1])
    agency.release(MONTHS[1])
    answer = command("estimate", agency.study, "pairs", query)
    low, high = answer["interval"]
    assert (high - low) / 2 == pytest.approx(planned["share_half_width"])  # as it was promised
    assert command("verify", agency.study)
    page = tmp_path / "work.html"
    command("page", agency.study, page)
    assert f"{answer['value']:.2%}" in page.read_text("utf-8")


def ask(served: Monitor, **fields: object) -> dict[str, Any]:
    """The address that the builder leads to, and the answer of the API to the same question."""
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        connection.request("GET", f"/ask/{fields.pop('release')}?{urlencode(fields)}")
        answer = connection.getresponse()
        assert answer.status == 303, answer.read()
        address = answer.headers["location"]
    assert served.get(address)[0] == 200
    name, _, asked = address.removeprefix("/release/").partition("?")
    curve = f"/api/v1/curve?release={name}&{asked.replace('q=', 'query=', 1)}"
    answers: dict[str, Any] = json.loads(served.get(curve)[1])["answers"][-1]
    return answers


def test_an_analyst_asks_and_takes_the_table_into_pandas(agency: Agency, served: Monitor) -> None:
    pandas = pytest.importorskip("pandas")
    public = stream_dp.open(agency.public)
    asked = [
        {"release": "pairs", "form": "at-least", "need": 1, "width": 2, "value": "yes"},
        {"release": "pairs", "form": "pattern", "p1": "?", "p2": "yes", "measure": "count"},
        {"release": "how-often", "form": "words", "words": "total at-least 2"},
    ]
    for fields in asked:
        answer = ask(served, **fields)
        count = answer["measure"] == "count"
        own = public.answer(fields["release"], answer["query"], count=count)
        assert answer["value"] == own.value
        assert answer["standard_error"] == own.standard_error
    table = pandas.read_csv(f"{served.url}/download/pairs/estimates.csv")
    assert table.to_dict("list") == public.estimates("pairs").to_pydict()
    panel = pandas.read_parquet(io.BytesIO(served.get("/download/pairs/panel.parquet")[1]))
    assert panel.equals(public.panel("pairs").table().to_pandas())
    counted = panel[panel[MONTHS[1]] == "yes"]
    codes = public.panel("pairs")
    assert len(counted) == int((codes.symbols[:, 1] == 1).sum()) > 0


def test_an_analyst_takes_the_table_into_r(agency: Agency, served: Monitor, tmp_path: Path) -> None:
    """R itself where it is installed; Python's reader of CSV, which knows no types, elsewhere."""
    path, body = tmp_path / "estimates.csv", served.get("/download/how-often/estimates.csv")[1]
    path.write_bytes(body)
    expected = stream_dp.open(agency.public).estimates("how-often").to_pylist()
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert [row["query"] for row in rows] == [row["query"] for row in expected]
    assert [float(row["value"]) for row in rows] == [row["value"] for row in expected]
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed; the table was read by Python's csv alone")
    script = f"t <- read.csv('{path}'); stopifnot(is.numeric(t$value)); cat(sum(t$value))"
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(sum(row["value"] for row in expected), rel=1e-6)


def trusted(folder: Path, port: int) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(folder / "server.pem"))
    return http.client.HTTPSConnection("localhost", port, timeout=60, context=context)


@needs("nginx", "openssl")
def test_an_engineer_puts_the_monitor_behind_tls(served: Monitor, tmp_path: Path) -> None:
    with proxy(tmp_path, PROXY, served.port) as port:
        for path in ("/", "/release/pairs", "/api/v1/releases", "/download/pairs/panel.csv"):
            with closing(trusted(tmp_path, port)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                assert answer.status == 200, path
                assert answer.headers["content-security-policy"].startswith("default-src 'self'")
                assert answer.read() == served.get(path)[1]
        with closing(trusted(tmp_path, port)) as connection:
            connection.request("GET", "/events")
            stream = connection.getresponse()
            head = [stream.readline() for _ in range(4)][-1]  # it is not held back by the proxy
            assert json.loads(head.removeprefix(b"data: "))["releases"] == 3
        with closing(trusted(tmp_path, port)) as connection:
            connection.request("POST", "/", "a=1")
            assert connection.getresponse().status == 405


@needs("nginx", "openssl")
def test_an_engineer_lets_operators_in_by_name(agency: Agency, tmp_path: Path) -> None:
    (tmp_path / "operators").write_text("ada:{PLAIN}a word of this test\n")
    (tmp_path / "operator-token").write_text(token := "a token of this test alone")
    arguments = (str(agency.study), "--operator", "--proxy-header", "X-User")
    arguments += ("--token-file", str(tmp_path / "operator-token"))
    with monitor(*arguments) as one, proxy(tmp_path, OPERATOR, one.port, token) as port:
        basic = "Basic YWRhOmEgd29yZCBvZiB0aGlzIHRlc3Q="  # ada and her word
        for headers, status in (
            ({}, 401),
            ({"X-User": "ada"}, 401),
            ({"Authorization": "Basic YWRhOm5vdGhpbmc="}, 401),
            ({"Authorization": basic}, 200),
            ({"Authorization": basic, "X-User": "mallory"}, 200),
        ):
            with closing(trusted(tmp_path, port)) as connection:
                connection.request("GET", "/close", headers=headers)
                assert connection.getresponse().status == status, headers
        for headers in ({}, {"X-User": "ada"}, {"Authorization": basic, "X-User": "ada"}):
            assert one.get("/close", headers)[0] == 403, "not by the proxy"


@needs("nginx", "openssl")
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed; tests/tools can, as root")
def test_a_newsroom_sees_a_release_arrive(agency: Agency, served: Monitor, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with proxy(tmp_path, PROXY, served.port) as port, playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options, timeout=600_000)
        page = browser.new_page(ignore_https_errors=True)
        page.set_default_timeout(120_000)
        page.goto(f"https://localhost:{port}/release/how-often")
        latest = f"main header p:has-text('Up to {MONTHS[2]}')"
        assert page.locator(latest).count() == 0
        agency.release(MONTHS[2])
        page.wait_for_selector(latest)
        assert "this page shows it" in page.locator("#live").text_content()
        answer = stream_dp.open(agency.public).answer("how-often", "total at-least 1", count=True)
        assert f"{answer.value:,.0f}" in page.locator("main").text_content()
        browser.close()
