"""Heads, spouses and children, from the study file to data sets of valid households."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from kit.events import lines_to
from kit.households import HouseholdFolder, report

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.privacy.noise import Measurements
from stream_dp.release import published_tables as dataset
from stream_dp.release.arrow_parts import measurement_table
from stream_dp.release.certificate import base_certificate
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import Roster, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.job_records import result_records
from stream_dp.study.group_releases import BatchRelease
from stream_dp.studyfile import load_study

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
MWEM = STUDY.replace('"hpd-fixed"\nrows = 20', '"mwem"')  # needs no JAX
LABELS = ("2021-01", "2021-02", "2021-03")
PLACES = ("head", "partner", "child", "lodger")
KINDS = (
    ["head"],
    ["head", "partner"],
    ["head", "partner", "child"],
    ["head", "child", "child"],
    ["head", "partner", "child", "child", "lodger"],
)


def tables() -> tuple[list[str], list[str]]:
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


def answered(members: list[str]) -> None:
    """Everybody's reports of every period, which is closed."""
    for number, label in enumerate(LABELS):
        lines = ["person,period,work"]
        for line in members[1:]:
            person, _, place = line.split(",")
            works = place in {"head", "partner"} and (number + len(person)) % 3 > 0
            lines.append(f"{person},{label},{int(works)}")
        Path("reports.csv").write_text("\n".join(lines) + "\n")
        assert main(["send", "families.toml", "reports.csv"]) == 0
        assert main(["close", "families.toml", label]) == 0


@pytest.mark.parametrize("kind", ["mwem", pytest.param("hpd-fixed", marks=pytest.mark.slow)])
def test_every_published_household_is_valid(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind.startswith("hpd"):
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    groups, members = tables()
    study = STUDY if kind == "hpd-fixed" else MWEM
    assert main(written(tmp_path, groups, members, study)) == 0
    answered(members)
    assert main(["run", "families.toml", "--until-idle"]) == 0
    assert main(["verify", "families.toml"]) == 0
    assert main(["export", "families.toml", "homes", "out"]) == 0
    people = pq.read_table("out/people.parquet")
    assert people.column_names == ["group", "place", "work"]
    homes: dict[int, list[str]] = {}
    for row in people.to_pylist():
        homes.setdefault(row["group"], []).append(row["place"])
    assert len(homes) == 90
    for roles in homes.values():
        assert roles.count("head") == 1
        assert roles.count("partner") <= 1
        assert roles.count("child") <= 2
        assert len(roles) <= 5
        assert set(roles) <= set(PLACES)
    # Partners and children are there in about the right number.
    places = [place for roles in homes.values() for place in roles]
    assert abs(places.count("partner") - 54) < 30
    assert abs(places.count("child") - 90) < 45
    with closing(SqliteLog(tmp_path / "families-public.db", readonly=True)) as log:
        one = PublicLog(log).published[-1]
        assert "in which role" in one.certificate.invariants
        asked = [line for line in one.measurements["query"].to_pylist() if "who has" in line]
    assert asked


def test_relations_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    groups, members = tables()
    assert main(written(tmp_path, groups, members, MWEM)) == 0
    answered(members)
    files = ["--groups", "groups.csv", "--members", "members.csv", "--group", "home"]
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
    groups, members = tables()
    changed = "\n".join(members).replace(old, new, 1).split("\n")
    assert main(written(tmp_path, groups, changed)) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert "p2-" not in said


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'kind = "hpd-fixed"\nrows = 20\nrounds = 1\nper_round = 40\nways = 2\n',
            'kind = "independent"\n',
            "knows nothing of [groups.roles]",
        ),
        ("children = 2", "children = 5", "groups.roles.children: must be fewer than groups.most"),
        ("children = 2", "children = 0", "groups.roles.children: must be at least 1"),
        ('child = "child"', 'child = "head"', "groups.roles: head, spouse, child and others must"),
        ('["lodger"]', '["lodger", "head"]', "groups.roles: head, spouse, child and others must"),
        ('["lodger"]', '["1", 1]', "groups.roles: head, spouse, child and others must"),
        ('column = "place"', 'column = "work"', "groups.roles.column: 'work' is an attribute"),
        ('column = "place"', 'column = "age"', "groups.roles.column: 'age' is an attribute"),
        ('column = "place"', 'column = "region"', "groups.roles.column: 'region' is an attribute"),
        ('column = "place"', 'column = "group"', "the name 'group' is reserved"),
        ('column = "place"', 'column = "size"', "the name 'size' is reserved"),
        ('column = "place"\n', "", "groups.roles.column: is required"),
        ('others = ["lodger"]', 'other = ["lodger"]', "groups.roles.other: unknown key"),
    ],
)
def test_roles_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, fault: str) -> None:
    more = "[attributes.age]\nvalues = [0, 1]\nmissing = 0\n[groups]\n"
    text = STUDY.replace("[groups]\n", more).replace(old, new)
    (tmp_path / "families.toml").write_text(text)
    with pytest.raises(UserError) as error:
        load_study(tmp_path / "families.toml")
    (line,) = error.value.lines
    assert fault in line


def test_relatives_have_a_part_of_rho_where_there_are_roles(tmp_path: Path) -> None:
    """A certificate states it, declared or not; without roles it is refused."""
    file = tmp_path / "families.toml"
    declared = STUDY.replace("rho = 5\n[run]", "rho = 5\nrelations = 0.3\n[run]")
    hashes = set()
    for text, part in ((STUDY, "1/2"), (declared, "3/10")):
        file.write_text(text)
        study, _ = load_study(file)
        (release,) = study.batches or ()
        assert isinstance(release, BatchRelease)
        stated = {"rounds": 1, "per_round": 40, "ways": 2}
        assert release.settings(True) == {**stated, "rows": 20, "relations": part, "rules": []}
        assert release.settings(False) == {**stated, "rows": 20}
        certificate = base_certificate(
            study,
            release,
            mechanism="m",
            number=3,
            rho=study.rho,
            spent=study.rho,
            simulated=True,
        )
        assert certificate.parameters == release.settings(True)
        hashes.add(study.hash)
    assert len(hashes) == 2
    start, end = declared.index("[groups.roles]"), declared.index("[[releases]]")
    file.write_text(declared[:start] + declared[end:])
    with pytest.raises(UserError, match=r"relations: no \[groups.roles\] say who is related"):
        load_study(file)


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        ("independent", set()),
        ("mwem", {"rounds", "per_round", "ways"}),
        ("hpd-fixed", {"rounds", "per_round", "ways", "rows"}),
    ],
)
def test_a_certificate_states_what_its_kind_uses(kind: str, used: set[str]) -> None:
    release = BatchRelease(name="r", kind=kind, attributes=("a",), rho=1, every=1)
    assert release.settings(False).keys() == used


def test_a_table_without_roles_keeps_its_hash_and_never_serves_a_study_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    groups, members = tables()
    a, b = STUDY.index("[groups.roles]"), STUDY.index("[[releases]]")
    assert main(written(tmp_path, groups, members, STUDY[:a] + STUDY[b:])) == 0
    (tmp_path / "families.toml").write_text(STUDY)
    capsys.readouterr()
    assert main(["run", "families.toml", "--until-idle"]) == 2
    assert "roles are not as the study file declares them; send again" in capsys.readouterr().err


def test_without_roles_nothing_is_written_otherwise() -> None:
    """The format of a table: its hash and bytes never change."""
    old = Roster({"region": ["north", "south"]}, ["p0", "p1", "p2"], np.array([0, 0, 1]))
    assert old.hash == "fa919637def99b029d1a726413c317d182fc0a6ce7b17c062f3ba17a8cfaa2a2"
    assert [hashlib.sha256(data).hexdigest()[:16] for _, data in old.message_parts()] == [
        "ae7266eb4be63f0e",
        "0160ac631f1b2217",
    ]
    roles = Roster(old.attributes, old.persons, old.group_of, ["head", "child", "head"])
    others = Roster(old.attributes, old.persons, old.group_of, ["head", "lodger", "head"])
    assert len({old.hash, roles.hash, others.hash}) == 3


# Two homes: a head and a child; a head, a partner and a lodger.
ROLES = ["head", "child", "head", "partner", "lodger"]
ROSTER = Roster({"region": ["north", "south"]}, list("abcde"), np.array([0, 0, 1, 1, 1]), ROLES)


def due(folder: Path, more: Sequence[Record] = ()) -> HouseholdFolder:
    """Everybody reported `work` 1, 0, 1, 0, 1 and the job is due; more: said in period 1."""
    text = MWEM.replace("sqlite:families", "sqlite:homes").replace("= 400", "= 6")
    homes = HouseholdFolder(folder, text)
    send_table(homes.setting, ROSTER)
    for number in (1, 2, 3):
        said = [report(p, number, work=1 - i % 2) for i, p in enumerate(ROSTER.persons)]
        homes.send([*(more if number == 1 else ()), *said, close_marker(number, 0)])
    homes.run()
    return homes


@pytest.mark.parametrize("more", [(), (report("b", 1, place="head", work=0),)])
def test_a_snapshot_has_the_tables_roles_whatever_people_say(
    tmp_path: Path, more: Sequence[Record]
) -> None:
    homes = due(tmp_path / "homes", more)
    (path,) = homes.folder.glob("*-snapshots/*-people-*")
    columns = pq.read_table(path).to_pydict()
    assert list(columns) == ["group", "place", "work"]
    assert [PLACES[code] for code in columns["place"]] == ROLES
    assert columns["work"] == [1, 0, 1, 0, 1]


def result(homes: HouseholdFolder, roles: list[int]) -> None:
    """A worker's result of one home with two members."""
    job = next(job for entry in homes.entries() for job in entry.jobs)
    groups = {"region": ("north", "south"), "size": range(1, 6)}
    names = {"groups": groups, "people": {"place": PLACES, "work": (0, 1)}}
    people = np.array([[role, 0] for role in roles])
    tables = dataset.coded_tables(names, np.array([[0, 1]]), people, np.zeros(2, np.int64))
    answers = measurement_table(Measurements(("q",), np.array([1]), (Fraction(1),)))
    (release,) = homes.setting.study.batches
    provenance = dataset.Provenance(release.data_set.mechanism, {}, simulated=False)
    with homes.worker() as worker:
        worker.log.append(
            result_records(
                job=job.id,
                attempt=1,
                writer="w",
                provenance=provenance,
                parts=dataset.data_set_parts(tables, answers),
            )
        )


@pytest.mark.parametrize("roles", [[0, 0], [1, 2], [2, 3], [0, 1], [3, 0]])
def test_a_household_that_cannot_be_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: list[int]
) -> None:
    homes, lines = due(tmp_path / "homes"), list[str]()
    result(homes, roles)
    homes.run(tell=lines_to(lines))
    results = [e for e in homes.entries() if e.result_of]
    if 0 in roles and roles != [0, 0]:
        assert results
        homes.public().verify()
        return
    assert not results
    assert any("whose roles are not as the study declares" in line for line in lines)
    # Nor does anybody who checks what is public take it for one.
    monkeypatch.setattr(
        "stream_dp.services.releaser.table_results.has_declared_roles", lambda *_: True
    )
    homes.run()
    with pytest.raises(Inconsistent, match="homes at 2021-03: a group has not the roles"):
        homes.public().verify()
