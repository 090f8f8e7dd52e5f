"""Tables of groups that are sent at the same time, or while the study begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit.households import HouseholdFolder, reports, roster

import stream_dp.services.intake.group_tables as module
from stream_dp.errors import UserError
from stream_dp.log.log import Busy
from stream_dp.services.intake.group_tables import Roster, read_table, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import JOURNAL


@pytest.fixture
def homes(tmp_path: Path) -> HouseholdFolder:
    return HouseholdFolder(tmp_path / "homes")


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, work: Any) -> None:
    """Let `work` happen once, right after the first call of a function of the module."""
    real, done = getattr(module, name), []

    def called(*given: Any) -> Any:
        result = real(*given)
        result = list(result) if name == "read_messages" else result
        if not done:
            done.append(True)
            work()
        return result

    monkeypatch.setattr(module, name, called)


def test_two_tables_at_once_leave_a_sound_chain(
    homes: HouseholdFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def other() -> None:
        try:
            send_table(homes.setting, roster(seed=6))
        except Busy as error:
            refused.append(str(error))

    meanwhile(monkeypatch, "read_messages", other)
    assert send_table(homes.setting, roster())
    assert len(refused) == 1
    assert "another process is its groups; stop that one first" in refused[0]
    with homes.log() as log:
        last = read_table(Roster, log)
    assert last is not None
    assert last.hash == roster().hash
    homes.send([*reports(1), close_marker(1, 0)])
    assert not homes.run()
    assert [entry.number for entry in homes.entries()] == [0, 1]


def test_a_table_that_is_sent_while_the_study_begins_changes_nothing(
    homes: HouseholdFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes.prepare(1)
    real, calls = module._bound, []

    def bound(log: Any) -> str | None:
        calls.append(real(log))
        if len(calls) == 1:
            homes.run()
        return calls[-1]

    monkeypatch.setattr(module, "_bound", bound)
    with pytest.raises(UserError, match="begun with another table"):
        send_table(homes.setting, roster(seed=6))
    assert calls == [None, roster().hash]
    assert homes.rows(JOURNAL)
    assert not homes.run()
    assert not send_table(homes.setting, roster())
