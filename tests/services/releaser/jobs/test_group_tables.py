"""The table of groups: its faults; another table does not replace it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from kit.commands import refusal
from kit.households import (
    HouseholdFolder,
    edit,
    roster,
)

from stream_dp.errors import Inconsistent, UserError
from stream_dp.services.intake.group_tables import send_table


def test_another_table_is_refused_once_the_study_has_begun(
    homes: HouseholdFolder, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_table(homes.setting, roster(3))
    assert send_table(homes.setting, roster())
    homes.prepare().run()
    assert not send_table(homes.setting, roster())
    with pytest.raises(UserError, match="begun with another table"):
        send_table(homes.setting, roster(seed=6))
    edit(homes, "DELETE FROM records WHERE topic = ?", "journal")
    kept = homes.folder / "homes-public.db"
    kept.unlink()
    assert send_table(homes.setting, roster(seed=6))


def test_a_table_that_was_changed_behind_its_back(homes: HouseholdFolder, folder: Path) -> None:
    homes.prepare().run()
    other = HouseholdFolder(folder / "other").prepare()
    send_table(other.setting, roster(seed=6))
    edit(homes, "DELETE FROM records WHERE topic = ?", "groups")
    with homes.log() as log:
        from stream_dp.log.log import Record

        log.append(
            Record(
                topic="groups",
                value=value,
                key=key,
                headers=tuple(msgspec.msgpack.decode(h)),
                partition=0,
                time=at,
            )
            for _, _, at, key, value, h in other.rows("groups")
        )
    with pytest.raises(Inconsistent, match="not the table that the journal was begun with"):
        homes.run()


@pytest.mark.parametrize(
    ("groups", "members", "line"),
    [
        ("group,region\na,north\n", "person,group\np,b\n", "1 members of no group"),
        ("group,region\na,north\nb,south\n", "person,group\np,a\n", "1 groups without members"),
        ("group,region\na,west\n", "person,group\np,a\n", "1 rows with an undeclared or empty"),
        ("group,region\na,north\na,north\n", "person,group\np,a\n", "'group' stands there twice"),
        ("group,region\na,north\n", "person,group\np,a\np,a\n", "'person' stands there twice"),
        ("group,region\na,north\n", "person,group\n,a\n", "1 rows without 'person'"),
        ("group,region\na,north\n", "who,group\np,a\n", "no column 'person'"),
        (
            "group,region\na,north\n",
            "person,group\n" + "".join(f"p{i},a\n" for i in range(5)),
            "1 groups of over 4",
        ),
    ],
)
def test_faults_of_a_table(
    groups: str, members: str, line: str, homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    files = homes.folder / "g.csv", homes.folder / "m.csv"
    for path, text in zip(files, (groups, members), strict=True):
        path.write_text(text)
    assert line in refusal(capsys, 2, "groups", homes.file, *files)
