"""Events have one name each, which the page of logs explains; logs are lines of JSON throughout."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from kit.households import EVERY, LABELS, HouseholdFolder

from stream_dp.services.commands.cli import main
from stream_dp.services.process import events
from stream_dp.services.process.events import KINDS, Event

SERVICES = Path(events.__file__).parents[1]
KEYS = ["time", "level", "event", "study", "period", "release", "job", "message"]


def names_in_code() -> set[str]:
    """The names of events that the services' code tells, wherever it does."""
    names = set()
    for path in SERVICES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name("Event" | "head") | ast.Attribute(attr="_tell" | "_event"),
                    args=[ast.Constant(str(name)), *_],
                ):
                    names.add(name)
    return names


def test_every_event_that_is_written_has_a_meaning_and_none_is_left_over() -> None:
    assert names_in_code() == set(KINDS)


def test_names_and_meanings_are_plain() -> None:
    for name, kind in KINDS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert re.fullmatch(r"[A-Z][^|\n]+\.", kind.meaning)
    assert len({kind.meaning for kind in KINDS.values()}) == len(KINDS)


def lines_of(error: str) -> list[dict[str, str | None]]:
    return [json.loads(line) for line in error.splitlines()]


def test_a_line_has_all_fields_in_this_order(capsys: pytest.CaptureFixture[str]) -> None:
    words = 'failed: a "quoted" word\nand an end of line \x1b[31m'
    events.tell_json("homes")(
        Event(name="job-failed", message=words, period="2021-01", release="households", job="a-job")
    )
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "\x1b" not in error
    (line,) = lines_of(error)
    assert list(line) == KEYS
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time") or "")
    assert line == {
        "level": "error",
        "event": "job-failed",
        "study": "homes",
        "period": "2021-01",
        "release": "households",
        "job": "a-job",
        "message": words,
    }


def test_a_releaser_and_a_worker_write_lines_of_json(
    folder: Path, handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = HouseholdFolder(folder / "homes", EVERY).prepare()
    homes.file.write_text(homes.file.read_text().replace("[run]", "[run]\nworker = false"))
    assert main(["run", str(homes.file), "--until-idle", "--json"]) == 0
    out, error = capsys.readouterr()
    assert (json.loads(out), out.count("\n")) == ({"horizon_reached": False}, 1)
    lines = lines_of(error)
    assert {line["event"] for line in lines} >= {"period-closed", "period-published", "job-due"}
    due = [line for line in lines if line["event"] == "job-due"]
    assert [line["release"] for line in due] == ["households"] * len(due)
    assert [line["period"] for line in due] == LABELS[: len(due)]
    assert main(["worker", str(homes.file), "--until-idle", "--json"]) == 0
    out, error = capsys.readouterr()
    assert (json.loads(out), out.count("\n")) == ({"stopped": False}, 1)
    worked = lines_of(error)
    assert [line["event"] for line in worked] == ["job-begun", "job-handed-in"] * len(due)
    assert [line["job"] for line in worked][::2] == [line["job"] for line in due]
    assert {line["study"] for line in [*lines, *worked]} == {"homes"}
    assert main(["run", str(homes.file), "--until-idle", "--json"]) == 0
    assert "job-published" in {line["event"] for line in lines_of(capsys.readouterr().err)}


@pytest.mark.parametrize("command", ["run", "worker"])
def test_the_last_line_of_one_that_fails_is_an_event_too(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.toml"
    assert main([command, str(missing), "--json"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    (line,) = lines_of(error)
    assert list(line) == ["time", "level", "event", "error", "lines", "code"]
    assert (line["level"], line["event"], line["code"]) == ("error", "ended", 2)
