"""The table of members comes through the same door as reports: its ids are read and compared as
theirs are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from stream_dp.errors import UserError
from stream_dp.population.tables import TableLayout
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_files import RosterTables, read_roster
from stream_dp.services.intake.group_tables import Roster, bound_table_of
from stream_dp.services.intake.sending import encoded_reports
from stream_dp.services.intake.true_panel import true_panel_and_members
from stream_dp.services.storage.deployment import Deployment

RULE = 'ids = { case = "fold", unicode = "NFC" }\n'
STUDY = """
[study]
name = "homes"
unit = "person"
neighbours = "replace_in_place"
rho = 5
delta = 1e-6
[study.periods]
first = "2021-01"
every = "month"
count = 2
[study.population]
size = 20
[attributes.work]
values = [0, 1]
missing = 0
[groups]
unit = "household"
most = 3
[groups.attributes.region]
values = ["north", "south"]
[[releases]]
name = "homes"
kind = "mwem"
attributes = ["work"]
ways = 2
every = 2
rho = 5
"""
GROUPS = {"home": [1, 2, 3], "region": ["north", "south", "south"]}


def study(rule: str = "") -> Any:
    return Deployment.load(file(Path(), rule)).study


def file(folder: Path, rule: str = "") -> Path:
    path = folder / "homes.toml"
    path.write_text(STUDY.replace("delta = 1e-6\n", f"delta = 1e-6\n{rule}"))
    return path


def written(
    folder: Path, persons: Any, homes: Any = (1, 2, 3, 1), groups: Any = None
) -> list[Path]:
    members = {"person": persons, "home": homes if isinstance(homes, pa.Array) else list(homes)}
    paths = [folder / "groups.parquet", folder / "members.parquet"]
    for path, columns in zip(paths, (groups or GROUPS, members), strict=True):
        pa.parquet.write_table(pa.table(columns), path)
    return paths


def home_files(groups: Path, members: Path) -> RosterTables:
    return RosterTables(groups, members, key="home", member_key="home", person="person")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FLOATS = pa.array([10_000_000_001.0, 10_000_000_002.0, 10_000_000_003.0, 0.5])


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        ({"persons": FLOATS}, "members.parquet: column 'person'"),
        ({"persons": list("abcd"), "homes": pa.array([1.0, 2, 3, 1])}, "members.parquet: column"),
        (
            {"persons": list("abcd"), "groups": {**GROUPS, "home": [1.0, 2.0, 3.0]}},
            "groups.parquet: column 'home'",
        ),
    ],
)
def test_float_ids_are_refused(tables: dict[str, Any], where: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        read_roster(study(), home_files(*written(tmp_path, **tables)))
    (line,) = fault.value.lines
    assert where in line
    assert "holds floats (double)" in line


def test_ids_are_those_of_reports(tmp_path: Path) -> None:
    for persons, expected in (
        (["007", "7", "1e3", " x"], ["007", "x", "7", "1e3"]),
        ([7, 2**60, 8, 9], ["7", "9", str(2**60), "8"]),
    ):
        roster = read_roster(study(), home_files(*written(tmp_path, persons)))
        assert sorted(roster.persons) == sorted(expected)


def test_one_odd_value_of_a_group_leaves_the_others_integers(tmp_path: Path) -> None:
    """Whole numbers beside a fraction were all undeclared."""
    text = STUDY.replace('values = ["north", "south"]', "values = [1, 2]")
    (tmp_path / "numbers.toml").write_text(text)
    groups = {**GROUPS, "region": [1.0, 2.0, 1.5]}
    files = written(tmp_path, list("abcd"), groups=groups)
    with pytest.raises(UserError) as fault:
        read_roster(Deployment.load(Path("numbers.toml")).study, home_files(*files))
    assert fault.value.lines == (
        f"{files[0]}: 1 rows with an undeclared or empty 'region', the first in row 3 below the"
        " header",
    )


@pytest.mark.parametrize(
    ("persons", "message"),
    [
        (["Ann", "bea", "ann ", "cy"], "a value of 'person' stands there twice, the first in row"),
        (["e\u0301", "bea", "\u00c9", "cy"], "a value of 'person' stands there twice"),
    ],
)
def test_members_are_compared_by_the_rule(persons: list[str], message: str, tmp_path: Path) -> None:
    files = written(tmp_path, persons)
    assert len(read_roster(study(), home_files(*files)).persons) == 4
    with pytest.raises(UserError) as fault:
        read_roster(study(RULE), home_files(*files))
    (line,) = fault.value.lines
    assert message in line


def test_an_id_of_blanks_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        read_roster(study(), home_files(*written(tmp_path, ["ann", " ", "bea", "cy"])))
    assert "1 rows without 'person', the first in row 2" in fault.value.lines[0]


def test_a_table_that_was_sent_before_the_rule_was_declared_is_checked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(path) for path in written(tmp_path, ["Ann", "bea", "ann ", "cy"])]
    path = file(tmp_path)
    assert main(["groups", str(path), *files, "--group", "home"]) == 0
    setting = Deployment.load(file(tmp_path, RULE))
    with closing(setting.log()) as log, pytest.raises(UserError, match="1 members are somebody"):
        bound_table_of(Roster, log, setting.study, None)
    capsys.readouterr()
    assert main(["run", str(path), "--until-idle"]) == 2
    assert "study.ids" in capsys.readouterr().err


def test_members_and_reports_meet_by_the_rule(tmp_path: Path) -> None:
    """In `evaluate`, as in a study that runs: the truth of everybody who is in the table."""
    roster = read_roster(
        study(RULE), home_files(*written(tmp_path, ["Ann", "BEA", "Ce\u0301", "dan"]))
    )
    truth = tmp_path / "truth.csv"
    rows = [f"{p},2021-0{n},1" for p in ("ann", " bea", "c\u00e9", "DAN") for n in (1, 2)]
    truth.write_text("\n".join(["person,period,work", *rows]) + "\n", "utf-8")
    panel, members = true_panel_and_members(study(RULE), truth, TableLayout(), roster)
    assert panel["work"].sum() == 8
    assert panel["work"][members.slots].sum() == 8
    with pytest.raises(UserError, match="4 of 4 members of groups are not in it"):
        true_panel_and_members(study(), truth, TableLayout(), roster)


def test_members_are_named_by_their_group_and_number(tmp_path: Path) -> None:
    """As `send --group home --member person` names them."""
    files = home_files(*written(tmp_path, ["1", "1", "1", "2"]))
    roster = read_roster(study(), replace(files, member="person"))
    assert roster.persons == ["1/1", "1/2", "2/1", "3/1"]
    files = home_files(*written(tmp_path, ["1", "1", "1", "1"]))
    with pytest.raises(UserError, match="'person' stands there twice, the first in row 4"):
        read_roster(study(), replace(files, member="person"))
    files = home_files(*written(tmp_path, ["1", "1", "1", "a/2"]))
    with pytest.raises(UserError, match="1 rows without 'person'"):
        read_roster(study(), replace(files, member="person"))


def test_a_key_is_the_same_for_every_spelling(tmp_path: Path) -> None:
    """So that all reports of a person lie in one partition, where the last value wins."""
    table = tmp_path / "reports.csv"
    table.write_text("person,period,work\nAnn ,2021-01,1\nann,2021-01,0\n")
    sent = [
        record for batch in encoded_reports(table, study(RULE), TableLayout()) for record in batch
    ]
    assert [key for key, _ in sent] == ["ann", "ann"]
    assert b'"Ann"' in sent[0][1]
    plain = [record for batch in encoded_reports(table, study(), TableLayout()) for record in batch]
    assert [key for key, _ in plain] == ["Ann", "ann"]
    assert [value for _, value in plain] == [value for _, value in sent]
