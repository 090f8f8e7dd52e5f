"""Whose log it is: no command writes to the log of another study, before and after its start."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kit.commands import json_output, refusal, written
from kit.households import TEXT
from kit.movers import moves_toml
from kit.studies import MONTHS, attribute, study_toml, window

from stream_dp.log.log import Record
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.deployment import Deployment, bound_to
from stream_dp.study.topics import JOBS, REPORTS, STUDY

NEXT_YEAR = {**MONTHS, "first": "2022-01", "count": 12}
SAME = {
    "size": 4,
    "rho": 4,
    "attributes": {"work": attribute(["no", "yes"], missing="no")},
    "releases": [window("now", "work", width=1, rho=1)],
}
# Files that name the log of the study of this year: last year's copy, and one that was edited.
OTHERS = {
    "name": {"name": "other"},
    "period": {"periods": NEXT_YEAR},
    "both": {"name": "other", "periods": NEXT_YEAR},
}


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.slow)])
def study(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Path:
    text = study_toml(
        name="year", **SAME, run={"log": "sqlite:y.db", "public": "sqlite:y-public.db"}
    )
    return written(text, tmp_path, request.param, request, capsys)


def another(study: Path, changes: dict[str, object]) -> Path:
    """A study file with other keys and the same `[run]`."""
    run = study.read_text().partition("[run]")[2]
    path = study.with_name("other.toml")
    path.write_text(study_toml(**{"name": "year", **SAME, **changes}) + "\n[run]" + run)
    return path


def table(study: Path, period: str, people: str = "abc") -> Path:
    path = study.with_name(f"{period}.csv")
    path.write_text("person,period,work\n" + "".join(f"{p},{period},yes\n" for p in people))
    return path


def reports(study: Path) -> int:
    """How many records lie among the reports."""
    with closing(Deployment.load(study).log(readonly=True)) as log:
        return len(log.read(REPORTS, {0: 0}, 100, 0).records)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("changes", OTHERS.values(), ids=list(OTHERS))
def test_another_study_writes_nothing(
    study: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], begun: bool
) -> None:
    other = another(study, changes)
    json_output(capsys, "send", study, table(study, "2021-01"))
    if begun:
        json_output(capsys, "run", study, "--until-idle")
    count = reports(study)
    last = "2022-12" if "periods" in changes else "2021-03"
    for words in (
        ["send", table(study, last)],
        ["send", table(study, last), "--check"],
        ["close", last],
        ["close", last, "--yes"],
        ["close", last, "--check"],
        ["close", last, "--yes", "--after", "5s"],
        ["run", "--until-idle"],
        ["status"],
        ["rejected"],
        ["topics"],
    ):
        name, *more = words
        error = refusal(capsys, 4, name, other, *more)
        assert error.startswith("stream-dp: log: it belongs to the study 'year' with the first")
        assert error.count("\n") == 1
    assert reports(study) == count
    json_output(capsys, "close", study, "2021-01")
    json_output(capsys, "run", study, "--until-idle")
    assert json_output(capsys, "status", study)["last_closed"] == "2021-01"


def test_the_file_may_change_until_the_study_begins(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = another(study, {"rho": 5})
    json_output(capsys, "send", study, table(study, "2021-01"))
    json_output(capsys, "send", edited, table(study, "2021-01", "d"))
    json_output(capsys, "run", edited, "--until-idle")
    for words in (["send", table(study, "2021-01")], ["close", "2021-01"], ["run"], ["status"]):
        error = refusal(capsys, 4, words[0], study, *words[1:])
        assert "study: it has changed since its first record: study.rho" in error
    json_output(capsys, "close", edited, "2021-01")
    json_output(capsys, "run", edited, "--until-idle")
    assert json_output(capsys, "status", edited)["cells_at_last_cut"]["accepted"] == 4


@pytest.mark.parametrize(
    ("text", "command", "files"),
    [
        (TEXT, "groups", {"g.csv": "group,region\n1,north\n", "m.csv": "person,group\na,1\n"}),
        (moves_toml(), "places", {"p.csv": "place,county,tract\n1,c0,t0\n"}),
    ],
    ids=["groups", "places"],
)
def test_a_table_or_a_word_on_jobs_of_another_study_is_not_sent(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    command: str,
    files: dict[str, str],
) -> None:
    study, other = tmp_path / "study.toml", tmp_path / "other.toml"
    study.write_text(text)
    name = Deployment.load(study).study.name
    other.write_text(text.replace(f'"{name}"', '"other"'))
    for file, rows in files.items():
        (tmp_path / file).write_text(rows)
    json_output(capsys, command, study, *(tmp_path / file for file in files))
    for words in (
        [command, *(tmp_path / file for file in files)],
        ["jobs"],
        ["jobs", "--abandon", "x"],
        ["jobs", "--retry", "x"],
        ["worker"],
    ):
        error = refusal(capsys, 4, words[0], other, *words[1:])
        assert f"log: it belongs to the study '{name}'" in error
    with closing(Deployment.load(study).log()) as log:
        log.create({JOBS: 1})
        assert not log.read(JOBS, {0: 0}, 1, 0).records


def test_of_two_first_writers_the_first_wins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both see a log that is nobody's; the record of the other one comes first."""
    run = {"log": "sqlite:y.db", "public": "sqlite:y-public.db"}
    study, other = tmp_path / "study.toml", tmp_path / "other.toml"
    study.write_text(study_toml(name="year", **SAME, run=run))
    other.write_text(study_toml(name="other", **SAME, run=run))
    before: list[Callable[[], object]] = [
        lambda: json_output(capsys, "send", study, table(study, "2021-01"))
    ]

    def look(log: object) -> object:
        found = bound_to(log)
        if found is None and before and log._db.execute("PRAGMA query_only").fetchone() == (0,):
            before.pop()()
        return found

    monkeypatch.setattr("stream_dp.services.storage.deployment.bound_to", look)
    error = refusal(capsys, 4, "close", other, "2021-01", "--yes")
    assert "log: it belongs to the study 'year'" in error
    assert not before
    assert reports(study) == 3


def test_a_marker_of_another_study_closes_nothing(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A marker of another study, though it is in this log, is a rejected record."""
    json_output(capsys, "send", study, table(study, "2021-01"))
    deployment = Deployment.load(study)
    other = Deployment.load(another(study, {"rho": 5})).study
    with closing(deployment.log()) as log:
        log.append([close_marker(3, 0, other)])
    shown = json_output(capsys, "close", study, "2021-01", "--check")
    assert shown["periods"] == [{"period": "2021-01", "people": 3, "accepted": 3}]
    assert shown["rejected"] == {"unreadable": 1}
    assert json_output(capsys, "status", study)["waits_for"].startswith("stream-dp close")
    assert main(["run", str(study), "--until-idle"]) == 0
    said = capsys.readouterr().out
    assert "2021-01 waits for: stream-dp close" in said
    assert "a marker of another study, 'year', was refused" in said
    assert json_output(capsys, "status", study)["last_closed"] is None
    with closing(deployment.log()) as log:
        log.append([close_marker(1, 0, deployment.study)])
    json_output(capsys, "run", study, "--until-idle")
    status = json_output(capsys, "status", study)
    assert status["last_closed"] == "2021-01"
    assert status["cells_at_last_cut"]["rejected"] == {"unreadable": 1}
    assert json_output(capsys, "rejected", study)["rejected"] == {"unreadable": 1}


def test_other_programs_send_reports_and_markers_that_name_no_study(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = json.dumps({"person": "a", "period": "2021-01", "values": {"work": "yes"}})
    with closing(Deployment.load(study).log()) as log:
        log.create({REPORTS: 1})
        log.append([Record(REPORTS, value.encode(), b"a"), close_marker(1, 0)])
    json_output(capsys, "run", study, "--until-idle")
    assert json_output(capsys, "status", study)["cells_at_last_cut"]["accepted"] == 1


def test_what_is_no_binding_is_skipped(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Deployment.load(study).log()) as log:
        log.create({STUDY: 1})
        log.append([Record(STUDY, value) for value in (b"", b"\xff", b"[]", b"{}", None)])
    json_output(capsys, "send", study, table(study, "2021-01"))
    with closing(Deployment.load(study).log()) as log:
        bound = bound_to(log)
    assert bound is not None
    assert (bound.study, bound.first, bound.begun) == ("year", "2021-01", False)
