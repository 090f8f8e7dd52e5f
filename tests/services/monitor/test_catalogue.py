"""Several studies on one monitor: each under an address of its own, and none takes others down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from kit import hostile
from kit.hostile import drafts, sealed, sound
from kit.monitors import Answer, ask, follower_of, monitor, publish, wait_until
from test_many_clients import Slow, asked_at_once

from stream_dp.errors import UserError
from stream_dp.log.log import Missing
from stream_dp.services.commands import cli
from stream_dp.services.monitor.answer_limits import MOST_STREAMS, MOST_WAITING
from stream_dp.services.monitor.catalogue import (
    MOST_STUDIES,
    public_catalogue,
    public_sources,
    study_url,
)
from stream_dp.services.monitor.client_limits import Application
from stream_dp.services.monitor.follower import Follower

RECORDS = sealed(drafts(sound()))
URL = "https://statistics.example"
ROOT = "/studies/asked"
PAGES = (
    "/",
    "/release/pairs",
    "/release/pairs?q=at-least+1+of+last+2+work%3Dfull",
    "/release/both?q=nothing",
    "/compare/pairs?q2=pattern+no&period2=2021-04",
    "/data/homes?pair=groups:region:size&q=people:%20work=full",
    "/privacy",
    "/verify",
    "/downloads",
    "/certificate/2",
    "/api",
    "/embed/release/pairs?q=pattern+full",
    "/none",
)


def named(description: str) -> list[Any]:
    """The records of the small study under another description."""
    chain = drafts(sound())
    chain[0].head["study"]["description"] = description
    hostile._hash_again(chain)
    return sealed(chain)


def missing() -> Any:
    raise Missing("no topic 'releases'")


def broken() -> Any:
    raise RuntimeError("a fault of the program")


HOSTILE = '<script>alert(1)</script>"\x1b[31m\u202e' + "x" * 10_000


@cache
def catalogue() -> Application:
    """Five logs: two sound, a damaged, a hostile and a missing one; and one that fails."""
    damaged = [*RECORDS[:-1], RECORDS[1]]
    followers = {
        "asked": follower_of(RECORDS, study_url(URL, "asked")),
        "winter": follower_of(named("Jobs in the winter"), study_url(URL, "winter")),
        "damaged": follower_of(damaged),
        "hostile": follower_of(named(HOSTILE), study_url(URL, "hostile")),
        "missing": Follower(missing, missing),
        "broken": Follower(broken, broken),
    }
    for follower in followers.values():
        follower.look()
    return public_catalogue(followers, URL)


def get(target: str, **headers: str) -> Answer:
    return ask(catalogue(), target, headers=headers)


def addresses(text: str) -> Iterator[str]:
    """The addresses on a page that lead to this monitor."""
    for address in re.findall(r'(?:href|src|action|content)="(/[^"]*|https?://[^"]*)"', text):
        yield unescape(address)
    yield from re.findall(r'iframe src="([^" ]*)"', unescape(unescape(text)))


FOLLOWED: set[str] = set()  # links of the pages that were looked at


@pytest.mark.parametrize("path", PAGES)
def test_every_address_on_a_studys_pages_is_below_its_own(path: str) -> None:
    answer = get(ROOT + path)
    assert answer.status in {200, 400, 404}
    found = {address.removeprefix(URL) for address in addresses(answer.text)} - {"/"}
    assert found
    for address in found:
        assert address.startswith(f"{ROOT}/"), address
        assert "//" not in address.partition("?")[0], address
    links = set(re.findall(r'(?:href|src)="(/[^"#]*)', answer.text)) - FOLLOWED
    FOLLOWED.update(links)
    for link in links:
        target = unescape(link)
        if "/download/" not in target and "/figure/" not in target:
            assert get(target).status in {200, 400}, target  # a comparison may have no error


def test_pages_are_those_of_a_monitor_of_one_study() -> None:
    """But for the addresses on them."""
    from stream_dp.services.monitor.public_front import public_monitor

    alone = public_monitor(follower_of(RECORDS, URL))
    front = '<a href="/">All studies</a>\n'
    for path in PAGES:
        text = get(ROOT + path).text.replace(ROOT, "").replace(front, "")
        assert text == ask(alone, path).text, path


def test_figures_downloads_and_the_api_are_below_the_address_too() -> None:
    for path, words in {
        "/figure/release/pairs.svg?q=pattern+full": "<svg",
        "/figure/release/pairs.csv?q=pattern+full": "period",
        "/download/pairs/measurements.csv": "period",
        "/api/v1/study": '"name": "asked"',
        "/style.css": "--paper",
        "/monitor.js": "EventSource(`${document.body.dataset.root}/events`)",
    }.items():
        answer = get(ROOT + path)
        assert (answer.status, words in answer.text) == (200, True), path
    assert json.loads(get(f"{ROOT}/openapi.json").body)["servers"] == [{"url": ROOT}]
    asked = get(f"{ROOT}/ask/pairs?form=words&words=pattern+full")
    assert (asked.status, asked.headers["location"]) == (
        303,
        f"{ROOT}/release/pairs?q=pattern+full",
    )
    assert get(ROOT).body == get(f"{ROOT}/").body
    assert f"{URL}{ROOT}/figure/" in get(f"{ROOT}/").text  # the preview of the link


def test_policies_and_limits_hold_below_the_address() -> None:
    for path, header, value in (
        ("/api/v1/study", "access-control-allow-origin", "*"),
        ("/api/v1/none", "access-control-allow-origin", "*"),
        ("/download/none/none.csv", "access-control-allow-origin", "*"),
        ("/embed/release/pairs?q=pattern+full", "cross-origin-resource-policy", "cross-origin"),
        ("/", "cross-origin-resource-policy", "same-origin"),
    ):
        assert get(ROOT + path).headers[header] == value, path
    assert "access-control-allow-origin" not in get(f"{ROOT}/").headers
    assert "frame-ancestors 'none'" in get(f"{ROOT}/").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in get("/").headers["content-security-policy"]
    etag = get(f"{ROOT}/").headers["etag"]
    assert get(f"{ROOT}/", **{"if-none-match": etag}).status == 304
    for path in ("/", f"{ROOT}/", "/studies/none/privacy"):
        assert ask(catalogue(), path, method="POST", body=b"a=1").status == 405
        assert ask(catalogue(), path, method="DELETE").status == 405
        assert get(f"{path}?{'x' * 5000}").status == 414
    assert get(f"{ROOT}/figure/none/x.svg").headers["content-type"] == "application/json"


def test_what_cannot_be_shown_is_listed_with_the_reason() -> None:
    page = get("/")
    assert page.status == 200
    for name, reason in {
        "damaged": "public log: ",
        "missing": "nothing is published yet",
        "broken": "the monitor failed on this public log",
    }.items():
        card = page.text.split(f'href="/studies/{name}/"')[1].split("</section>")[0]
        assert f'<p class="fault">{reason}' in card, name
        answer = get(f"/studies/{name}/")
        assert (answer.status, reason in answer.text) == (503, True)
    assert get("/healthz").status == 200
    assert get("/studies/asked/healthz").status == 200
    assert get("/studies/damaged/healthz").status == 503
    metrics = get("/metrics").text
    assert 'stream_dp_monitor_ready{log="asked"} 1.0' in metrics
    assert 'stream_dp_monitor_ready{log="missing"} 0.0' in metrics


def test_the_list_is_data_too() -> None:
    answer = get("/api/v1/studies")
    assert answer.headers["access-control-allow-origin"] == "*"
    studies = {study["name"]: study for study in json.loads(answer.body)}
    assert set(studies) == {"asked", "winter", "damaged", "hostile", "missing", "broken"}
    one = studies["asked"]
    assert (one["address"], one["study"], one["last"]) == (f"{ROOT}/", "asked", "2021-04")
    assert set(one["releases"]) == {"pairs", "months", "both", "homes"}
    assert (one["head"], one["faults"]) == (sound()[-1].hash, [])
    assert studies["missing"]["head"] is None
    assert studies["missing"]["faults"][0].startswith("nothing is published yet")


def test_a_search_needs_no_script_and_finds_all_words() -> None:
    def found(search: str) -> set[str]:
        return set(re.findall(r'<h2><a href="/studies/(\w+)/"', get(f"/?q={search}").text))

    assert found("") == {"asked", "winter", "damaged", "hostile", "missing", "broken"}
    assert found("WINTER+jobs") == {"winter"}
    assert found("homes") == {"asked", "winter", "hostile"}  # the name of a release
    assert found("missing") == {"missing"}
    assert found("jobs+summer") == set()
    page = get("/").text
    assert '<form class="ask search" action="/" role="search">' in page
    assert 'name="q"' in page


def test_hostile_texts_are_inert() -> None:
    for target in ("/", "/?q=%3Cscript%3Ealert(1)%3C/script%3E%22%E2%80%AE", "/%3Cscript%3E"):
        text = get(target).text
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert len(text) < 20_000
    for target in ("/studies", "/studies/", "/studies//", "/studies/../", "/studies/%00/", "/x"):
        answer = get(target)
        assert (answer.status, "there is no such page" in answer.text) == (404, True), target
    assert get("/?q=" + "%f0%9f" * 300).status == 200


def test_limits_are_shared_by_all_studies() -> None:
    slow = dict.fromkeys("ab", follower_of(RECORDS))
    slow["a"].served = Slow(RECORDS)
    application = public_catalogue(slow)
    targets = [
        f"/studies/{name}/api/v1/curve?release=pairs&query={i}"
        for i in range(MOST_WAITING // 2 + 25)
        for name in slow
    ]
    statuses = asked_at_once(application, [*targets, "/healthz"], lambda seen: len(seen) >= 51)
    assert (statuses.count(503), statuses.count(200)) == (50, 1)
    events = ["/studies/a/events", "/studies/b/events", "/events"] * 90
    statuses = asked_at_once(application, events, lambda seen: len(seen) == len(events))
    assert statuses.count(200) == MOST_STREAMS


def test_logs_with_one_head_keep_answers_of_their_own() -> None:
    """Under a restored copy's address no link may lead to the other."""
    copies = {name: follower_of(RECORDS, study_url("", name)) for name in ("a", "b")}
    application = public_catalogue(copies)
    for name in copies:
        assert f'href="/studies/{name}/verify"' in ask(application, f"/studies/{name}/privacy").text


def test_a_folder_stands_for_its_public_logs_alone(tmp_path: Path) -> None:
    for name in ("poverty.db", "poverty-public.db", "homes-public.db", "notes.txt"):
        (tmp_path / name).touch()
    assert public_sources([str(tmp_path)]) == {
        "homes": f"sqlite:{tmp_path}/homes-public.db",
        "poverty": f"sqlite:{tmp_path}/poverty-public.db",
    }
    named = public_sources([str(tmp_path), "sqlite:some/public.db", "kafka://h:1,g:2/jobs"])
    assert named["public"] == "sqlite:some/public.db"
    assert named["jobs"] == "kafka://h:1,g:2/jobs"


def test_addresses_that_cannot_be_are_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="both called 'a'"):
        public_sources(["sqlite:x/a-public.db", "sqlite:y/a.db"])
    with pytest.raises(UserError, match="no file whose name ends with -public"):
        public_sources([str(tmp_path)])
    with pytest.raises(UserError, match="a study file has the confidential log too"):
        public_sources([str(tmp_path / "study.toml")])
    with pytest.raises(UserError, match="no address follows"):
        public_sources(["sqlite:<script>.db"])
    with pytest.raises(UserError, match=f"serves {MOST_STUDIES} at most"):
        public_sources([f"sqlite:{i}.db" for i in range(MOST_STUDIES + 1)])
    assert cli.main(["monitor", "sqlite:a.db", "sqlite:b.db", "--head", "0" * 64]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_log_that_comes_later_is_shown_and_one_that_goes_harms_no_other(tmp_path: Path) -> None:
    for name in ("first", "second"):
        publish(tmp_path / f"{name}-public.db", sound())
    late = tmp_path / "late.db"
    with monitor(str(tmp_path), f"sqlite:{late}") as one:
        assert one.get("/studies/late/")[0] == 503
        publish(late, sound())
        wait_until(lambda: one.get("/studies/late/")[0] == 200)
        (tmp_path / "first-public.db").write_bytes(b"no log at all")
        wait_until(lambda: b'<p class="fault">' in one.get("/")[1])
        assert one.get("/studies/second/release/pairs")[0] == 200
