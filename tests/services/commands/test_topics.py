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
    assert again == {"topics": first["topics"], "created": []}
    assert main(["topics", str(study)]) == 0
    assert {line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()} == {
        "as it must be"
    }
