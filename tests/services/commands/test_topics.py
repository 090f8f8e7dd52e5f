"""`stream-dp topics` says what it created, and what was there."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.commands import json_output
from kit.study_file import TEXT

from stream_dp.services.commands.cli import main


def test_created_topics_are_told_from_those_that_were_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "poverty.toml"
    study.write_text(f'{TEXT}public = "sqlite:p.db"\n')
    first = json_output(capsys, "topics", str(study))
    assert "releases" in first["topics"]
    assert first["created"] == first["topics"]
    again = json_output(capsys, "topics", str(study))
    assert again == {"topics": first["topics"], "created": [], "notices": []}
    assert main(["topics", str(study)]) == 0
    assert {line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()} == {"exists"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('format = "debezium"', ("REPLICA IDENTITY FULL", "'ssuid' and 'month'", "'before'")),
        ('format = "avro"\nrows = "debezium"\nschemas = "s"', ("REPLICA IDENTITY FULL",)),
        ('format = "debezium"\nbefore = "fixed"', ()),
        ('format = "flat"\ntombstone = "withdraw"', ("primary key", "'ssuid' and 'month'")),
        ('format = "flat"', ()),
    ],
)
def test_what_senders_of_changes_must_write_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str, words: tuple[str, ...]
) -> None:
    study = tmp_path / "poverty.toml"
    columns = 'person = "ssuid"\nperiod = "month"'
    study.write_text(f'{TEXT}public = "sqlite:p.db"\n[run.input]\n{lines}\n{columns}\n')
    notices = json_output(capsys, "topics", str(study))["notices"]
    assert len(notices) == bool(words)
    assert main(["topics", str(study)]) == 0
    said = capsys.readouterr().out
    for word in words:
        assert word in notices[0]
        assert word in said
