"""A failed job in the operator's monitor: tried again, given up, and each act in its log."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import urlencode

import pytest
from kit.households import HouseholdFolder
from kit.monitors import Answer, ask

pytest.importorskip("fastapi")

from stream_dp.services.commands import cli
from stream_dp.services.monitor import operator, operator_facts
from stream_dp.services.monitor.operator import operator_monitor
from stream_dp.services.monitor.operator_facts import CommandResult, Watch
from stream_dp.services.process.access import Access


def said(name: str, study: Path) -> CommandResult:
    """What a command says, run here, which is quicker than in a process of its own."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert cli.main([name, str(study), "--json"]) == 0
    return CommandResult(json.loads(out.getvalue()), ())


TOKEN = "a token of this test alone"
BEARER = {"authorization": f"Bearer {TOKEN}"}


class Desk:
    """The operator's monitor of a study with a job that has failed, for its snapshot is gone."""

    def __init__(self, homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]) -> None:
        self.homes, self._capsys = homes, capsys
        homes.prepare().run()
        (self.snapshot,) = (homes.folder / "homes-snapshots").glob("*-people-*")
        self.content = self.snapshot.read_bytes()
        self.snapshot.unlink()
        homes.work()
        access = Access(TOKEN)
        self.application = operator_monitor(homes.file, access, Watch(homes.file))

    @property
    def job(self) -> dict[str, str]:
        (job,) = said("jobs", self.homes.file).data["jobs"]
        return dict(job)

    def get(self, path: str = "/") -> Answer:
        return ask(self.application, path, headers=BEARER)

    def ask_for(self, act: str, confirm: str = "yes") -> Answer:
        """What the operator does: open the page of an act, and send its form."""
        page = self.get(f"/job/{self.job['id']}/{act}")
        assert page.status == 200, page.text
        (key,) = re.findall(r'name="key" value="(\w+)"', page.text)
        body = urlencode({"key": key, "confirm": confirm}).encode()
        path = f"/job/{self.job['id']}/{act}"
        return ask(self.application, path, method="POST", headers=BEARER, body=body)

    def logged(self) -> list[dict[str, str]]:
        """The acts that the monitor has logged since the last look."""
        lines = [json.loads(line) for line in self._capsys.readouterr().err.splitlines()]
        keys = ("event", "by", "act", "what", "outcome")
        return [{key: line[key] for key in keys} for line in lines]


@pytest.fixture
def desk(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.setattr(operator_facts, "command", said)
    monkeypatch.setattr(operator, "_FIRST_FACTS_TIMEOUT", 600.0)
    return Desk(homes, capsys)


def test_a_failed_job_is_tried_again_and_published(desk: Desk) -> None:
    name = desk.job["id"]
    assert desk.job["state"] == "failed"
    page = desk.get().text
    assert f"Try {name} again" in page
    assert "snapshot" in page  # why it failed
    desk.logged()
    assert desk.ask_for("retry", confirm="").status == 400
    assert (desk.job["state"], desk.logged()) == ("failed", [])
    done = desk.ask_for("retry")
    assert (done.status, done.headers["location"]) == (303, f"/?done=retry%20{name}%3A%20done")
    act = {"event": "operator-act", "by": "operator", "act": "retry", "what": name}
    assert desk.logged() == [{**act, "outcome": "done"}]
    assert f"Try {name} again" not in desk.get().text
    desk.snapshot.write_bytes(desk.content)
    desk.homes.work()
    assert desk.homes.run()
    published = [d.certificate.release for d in desk.homes.public().published]
    assert published == ["pairs", "pairs", "households"]
    desk.homes.public().verify()


def test_a_failed_job_is_given_up_once(desk: Desk) -> None:
    name = desk.job["id"]
    desk.logged()
    page = desk.get(f"/job/{name}/retry").text
    (key,) = re.findall(r'name="key" value="(\w+)"', page)
    assert desk.ask_for("abandon").status == 303
    act = {"event": "operator-act", "by": "operator", "what": name}
    assert desk.logged() == [{**act, "act": "abandon", "outcome": "done"}]
    body = urlencode({"key": key, "confirm": "yes"}).encode()  # a page that was left open
    late = ask(desk.application, f"/job/{name}/retry", method="POST", headers=BEARER, body=body)
    assert (late.status, "is abandoned" in late.text) == (409, True)
    (line,) = desk.logged()
    assert line["act"] == "retry"
    assert "is abandoned; only a failed job can be tried again" in line["outcome"]
    assert f"/job/{name}/" not in desk.get().text
    desk.snapshot.write_bytes(desk.content)
    desk.homes.work()
    assert desk.homes.run()
    assert {d.certificate.release for d in desk.homes.public().published} == {"pairs"}
