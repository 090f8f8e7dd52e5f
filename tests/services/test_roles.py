"""Heads, spouses and children, from the study file to data sets of valid households."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from stream_dp.services.cli import main

from stream_dp.client import Public
from stream_dp.errors import UserError
from stream_dp.log.sqlite import SqliteLog
from stream_dp.studyfile import load

STUDY = """
[study]
name = "families"
unit = "person"
neighbours = "replace_in_place"
rho = 5
delta = 1e-6
[study.periods]
first = "2021-01"
every = "month"
count = 3
close = "marker"
[study.population]
size = 400
[attributes.work]
values = [0, 1]
missing = { carry = true, first = 0 }
[groups]
unit = "household"
most = 5
[groups.attributes.region]
values = ["north", "south"]
[groups.roles]
column = "place"
head = "head"
spouse = "partner"
child = "child"
others = ["lodger"]
children = 2
[[releases]]
name = "homes"
kind = "hpd-fixed"
rows = 20
rounds = 1
per_round = 40
ways = 2
attributes = ["work"]
every = 3
rho = 5
[run]
log = "sqlite:families.db"
public = "sqlite:families-public.db"
"""
PLACES = ("head", "partner", "child", "lodger")
KINDS = (
    ["head"],
    ["head", "partner"],
    ["head", "partner", "child"],
    ["head", "child", "child"],
    ["head", "partner", "child", "child", "lodger"],
)


def tables(folder: Path) -> tuple[list[str], list[str]]:
    """The lines of both files, heads never first: children of working heads do not work."""
    groups, members = ["home,region"], ["person,home,place"]
    for home in range(90):
        groups.append(f"h{home},{('north', 'south')[home % 2]}")
        for i, place in enumerate(reversed(KINDS[home % len(KINDS)])):
            members.append(f"p{home}-{i},h{home},{place}")
    return groups, members


def written(folder: Path, groups: list[str], members: list[str], study: str = STUDY) -> list[str]:
    """The arguments of `stream-dp groups`."""
    (folder / "families.toml").write_text(study)
    (folder / "groups.csv").write_text("\n".join(groups) + "\n")
    (folder / "members.csv").write_text("\n".join(members) + "\n")
    files = [str(folder / name) for name in ("families.toml", "groups.csv", "members.csv")]
    return ["groups", *files, "--group", "home"]


def test_every_published_household_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    groups, members = tables(tmp_path)
    assert main(written(tmp_path, groups, members)) == 0
    for number, label in enumerate(("2021-01", "2021-02", "2021-03")):
        lines = ["person,period,work"]
        for line in members[1:]:
            person, _, place = line.split(",")
            works = place in {"head", "partner"} and (number + len(person)) % 3 > 0
            lines.append(f"{person},{label},{int(works)}")
        (tmp_path / "reports.csv").write_text("\n".join(lines) + "\n")
        assert main(["send", "families.toml", "reports.csv"]) == 0
        assert main(["close", "families.toml", label]) == 0
    assert main(["run", "families.toml", "--until-idle"]) == 0
    assert main(["verify", "families.toml"]) == 0
    assert main(["export", "families.toml", "homes", "out"]) == 0
    people = pq.read_table("out/people.parquet")
    assert people.column_names == ["group", "place", "work"]
    homes: dict[int, list[str]] = {}
    for row in people.to_pylist():
        homes.setdefault(row["group"], []).append(row["place"])
    assert len(homes) == 90
    for found in homes.values():
        assert found.count("head") == 1
        assert found.count("partner") <= 1
        assert found.count("child") <= 2
        assert len(found) <= 5
        assert set(found) <= set(PLACES)
    # Partners and children are there in about the right number.
    places = [place for found in homes.values() for place in found]
    assert abs(places.count("partner") - 54) < 30
    assert abs(places.count("child") - 90) < 45
    with closing(SqliteLog(tmp_path / "families-public.db", readonly=True)) as log:
        one = Public(log).published[-1]
        assert "in which role" in one.certificate.invariants
        asked = [line for line in one.measurements["query"].to_pylist() if "who has" in line]
    assert asked
    files = ["--groups", "groups.csv", "--members", "members.csv", "--group", "home"]
    (tmp_path / "families.toml").write_text(STUDY.replace('"hpd-fixed"\nrows = 20', '"mwem"'))
    answers = ["evaluate", "families.toml", "reports.csv", *files, "--repetitions", "1"]
    capsys.readouterr()
    assert main(answers) == 0
    said = capsys.readouterr().out
    assert "relations, 12 queries" in said


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("h2,head", "h2,lodger", "1 groups with no head"),
        ("h2,child", "h2,head", "1 groups with more than one head"),
        ("h2,child", "h2,partner", "1 groups with more than one spouse"),
        ("h4,lodger", "h4,child", "1 groups with more than 2 children"),
        ("h2,child", "h2,uncle", "1 rows with an undeclared or empty 'place'"),
        ("h2,child", "h2,", "1 rows with an undeclared or empty 'place'"),
        ("person,home,place", "person,home,role", "no column 'place'"),
    ],
)
def test_members_in_no_possible_role_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, fault: str
) -> None:
    groups, members = tables(tmp_path)
    changed = "\n".join(members).replace(old, new, 1).split("\n")
    assert main(written(tmp_path, groups, changed)) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert "p2-" not in said


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'kind = "hpd-fixed"\nrows = 20',
            'kind = "independent"',
            "knows nothing of [groups.roles]",
        ),
        ("children = 2", "children = 5", "children must be at least 1 and fewer than the largest"),
        ('child = "child"', 'child = "head"', "place"),
        ('column = "place"', 'column = "work"', "column 'work': declared twice"),
        ('column = "place"', 'column = "group"', "the name 'group' is reserved"),
        ('others = ["lodger"]', 'other = ["lodger"]', "groups.roles.other"),
    ],
)
def test_roles_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (tmp_path / "families.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(UserError) as error:
        load(tmp_path / "families.toml")
    assert fault in str(error.value)


def test_a_table_without_roles_keeps_its_hash_and_never_serves_a_study_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    groups, members = tables(tmp_path)
    a, b = STUDY.index("[groups.roles]"), STUDY.index("[[releases]]")
    assert main(written(tmp_path, groups, members, STUDY[:a] + STUDY[b:])) == 0
    (tmp_path / "families.toml").write_text(STUDY)
    capsys.readouterr()
    assert main(["run", "families.toml", "--until-idle"]) == 2
    assert "roles are not as the study file declares them; send again" in capsys.readouterr().err
