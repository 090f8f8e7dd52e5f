"""The operator's page of several studies: problems first, then what is due; who is let in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from kit.monitors import Answer, ask
from kit.studies import study_toml

from stream_dp.errors import UserError
from stream_dp.services.monitor import operator
from stream_dp.services.monitor.client_limits import Application
from stream_dp.services.monitor.operator import OPEN
from stream_dp.services.monitor.operator_facts import (
    CommandResult,
    Facts,
    Overview,
    Watch,
    study_row,
)
from stream_dp.services.monitor.serving import operator_studies, study_files
from stream_dp.services.process.access import Access

TOKEN = "a token of this test alone"
BEARER = {"authorization": f"Bearer {TOKEN}"}
NOW = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
SOUND = {
    "open_period": "2023-11",
    "due": "2023-12-01T00:00:00+00:00",
    "scheduled": False,
    "rho_spent": "1/4",
    "rho_total": "1",
    "processes": [],
}


def row(name: str = "one", **fields: object) -> object:
    return study_row(name, CommandResult({**SOUND, **fields}, ()), NOW)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sound study and a file that is none."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "autumn.toml").write_text(study_toml(name="autumn"))
    (folder / "broken.toml").write_text("[study]\nname = '<script>'\n")
    return study_files([str(folder)])


@pytest.fixture(scope="module")
def overview(studies: dict[str, Path]) -> Overview:
    one = Overview(studies)
    one.refresh()
    return one


@pytest.fixture(scope="module")
def operated(studies: dict[str, Path], overview: Overview) -> Application:
    return operator_studies(studies, Access(TOKEN), overview)


def get(application: Application, target: str, **headers: str) -> Answer:
    return ask(application, target, headers=BEARER | headers)


def test_problems_stand_first_and_then_what_is_due(
    studies: dict[str, Path], overview: Overview, operated: Application
) -> None:
    rows = overview.rows()
    assert [(one.name, one.rank) for one in rows] == [("broken", 0), ("autumn", 1)]
    text = get(operated, "/").text
    order = re.findall(r'<th scope="row"><a href="(/studies/\w+/)"', text)
    assert order == ["/studies/broken/", "/studies/autumn/"]
    assert "CONFIDENTIAL" in text
    assert "<script>" not in text.replace("<script src=", "")
    autumn = text.split("/studies/autumn/")[1].split("</tr>")[0]
    for cell in ("2021-01", "2021-02-01 00:00 UTC", "100.0 %", "none"):
        assert cell in autumn
    assert f'data-head="{overview.head}"' in text


def test_every_fault_of_a_status_is_a_problem_in_words() -> None:
    missing = {"name": "releaser", "missing": True, "words": "MISSING, last heard 2 h ago"}
    job = {"id": "homes-1", "state": "failed", "words": "failed: no memory"}
    late = "2023-11-14T22:00:00+00:00"
    for fields, words in (
        ({"processes": [missing]}, "releaser: MISSING"),
        ({"jobs": [job]}, "job homes-1: failed"),
        ({"moved": True}, "copied or restored"),
        ({"damaged_snapshots": ["s1"]}, "snapshot s1"),
        ({"due": late, "scheduled": True}, "the scheduled close of 2023-11 has not come"),
    ):
        found = row(**fields)
        assert found.rank == 0, fields  # type: ignore[attr-defined]
        assert words in found.problems[0]  # type: ignore[attr-defined]
    lines = ("study.toml: line 3 is wrong",)
    unreadable = study_row("x", CommandResult({}, lines), NOW)
    assert (unreadable.rank, unreadable.problems) == (0, lines)


def test_what_is_due_stands_before_what_is_not() -> None:
    marker = row(due="2023-11-01T00:00:00+00:00")
    assert (marker.rank, marker.problems) == (1, ())  # type: ignore[attr-defined]
    assert marker.late_words(NOW) != ""  # type: ignore[attr-defined]
    waiting = row()
    assert (waiting.rank, waiting.late_words(NOW)) == (2, "")  # type: ignore[attr-defined]
    assert waiting.budget_left == 75  # type: ignore[attr-defined]
    ended = row(open_period=None, due=None)
    assert (ended.rank, ended.due_words()) == (2, "")  # type: ignore[attr-defined]
    jobs = [{"id": str(i), "state": s, "words": s} for i, s in enumerate(["done", "running"] * 2)]
    assert row(jobs=jobs).jobs == (("done", 2), ("running", 2))  # type: ignore[attr-defined]


def test_each_studys_pages_act_below_their_address(
    operated: Application,
    studies: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The act itself is that of a monitor of one study: tests of the operator's monitor."""
    asked: list[tuple[str, Path]] = []

    def noted(name: str, study: Path, *arguments: str) -> CommandResult:
        asked.append((name, study))
        return CommandResult({}, ())

    facts = Facts({"open_period": "2021-01"}, {}, (), (), (), ())
    monkeypatch.setattr(operator, "command", noted)
    monkeypatch.setattr(Watch, "look", lambda watch: facts)
    monkeypatch.setattr(Watch, "refresh", lambda watch: None)
    page = get(operated, "/studies/autumn/close")
    assert 'action="/studies/autumn/close"' in page.text
    assert 'href="/">All studies</a>' in page.text
    (key,) = re.findall(r'name="key" value="(\w+)"', page.text)
    body = urlencode({"key": key, "period": "2021-01", "confirm": "2021-01"}).encode()
    done = ask(operated, "/studies/autumn/close", method="POST", headers=BEARER, body=body)
    assert done.status == 303
    assert done.headers["location"] == "/studies/autumn/?done=close%202021-01%3A%20done"
    assert asked == [("close", studies["autumn"])] * 2
    line = json.loads(capsys.readouterr().err)
    assert (line["study"], line["act"], line["outcome"]) == ("autumn", "close", "done")


def test_strangers_see_nothing_on_any_address(
    studies: dict[str, Path], overview: Overview, operated: Application
) -> None:
    paths = ("/", "/events", "/studies/autumn/", "/studies/autumn/close")
    assets = [f"/studies/autumn{path}" for path in OPEN]
    for path in (*paths, *assets, "/studies/none/", "/studies/none/style.css"):
        answer = get(operated, path, authorization="")
        assert (answer.status, answer.headers.get("location")) == (303, "/login"), path
        assert "autumn" not in answer.text
    body = urlencode({"token": TOKEN}).encode()
    cookie = ask(operated, "/login", method="POST", body=body).headers["set-cookie"]
    session = cookie.partition(";")[0]
    assert get(operated, "/", authorization="", cookie=session).status == 200
    assert get(operated, "/studies/autumn/", authorization="", cookie=session).status == 200
    proxied = operator_studies(studies, Access(TOKEN, proxy_header="x-user"), overview)
    assert get(proxied, "/").status == 403
    assert get(proxied, "/", **{"x-user": "ada"}).status == 200
    assert get(operated, "/healthz").status == 200
    assert get(operated, "/studies/none/").status == 404


def test_study_files_have_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no study file"):
        study_files([str(tmp_path)])
    with pytest.raises(UserError, match="both called 'a'"):
        study_files(["x/a.toml", "y/a.toml"])
    assert study_files(["x/a.toml", "b.toml"]) == {"a": Path("x/a.toml"), "b": Path("b.toml")}
