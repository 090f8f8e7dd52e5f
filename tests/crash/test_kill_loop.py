"""The kill loop runs every study and engine, and sees a fault that is put there."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_loop import Outcome, decisions, judge, loop, run_on
from kit.kill_studies import STUDIES, KillFolder
from kit.panels import fix_secrets

from stream_dp.study.topics import DEAD_LETTERS, RELEASES


@pytest.fixture
def finished(tmp_path: Path) -> KillFolder:
    """The first study, run to its end."""
    folder = KillFolder(tmp_path / "study", STUDIES[0], "here").prepare()
    assert run_on(folder) == ""
    return folder


def faults(folder: KillFolder) -> set[str]:
    outcome = Outcome()
    judge(folder, decisions(folder), folder.rows(RELEASES), outcome)
    return {fault for fault, _ in outcome.faults}


def test_a_missing_dead_letter_is_seen_as_lost(finished: KillFolder) -> None:
    assert faults(finished) == set()
    finished.edit_log(f"DELETE FROM records WHERE topic = '{DEAD_LETTERS}' AND offset = 0")
    assert faults(finished) == {"lost"}


def test_a_changed_release_is_seen_as_differing(finished: KillFolder) -> None:
    change = f"UPDATE records SET value = x'00' WHERE topic = '{RELEASES}' AND offset = 2"
    finished.edit_log(change, public=True)
    assert faults(finished) == {"differing"}


@pytest.mark.slow
def test_kills_of_every_kind_and_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_secrets(monkeypatch)
    assert loop(100, 0)
