"""Structural rules, from the study file to what is published."""

from __future__ import annotations

from collections.abc import Mapping
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
from stream_dp.log.sqlite import SqliteLog
from stream_dp.privacy.noise import Measurements
from stream_dp.release import published_tables as dataset
from stream_dp.release.arrow_parts import measurement_table
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import Roster, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.job_records import result_records
from stream_dp.studyfile import load_study

RULES = ("child.age + 20 <= head.age", "spouse.age >= 20")
STUDY = f"""
[study]
name = "families"
unit = "person"
neighbours = "replace_in_place"
rho = 5
delta = 1e-6
[study.periods]
first = 1
every = "step"
count = 1
close = "marker"
[study.population]
size = 6
[attributes.age]
values = [0, 20, 40]
missing = "absent"
[attributes.sex]
values = ["f", "m"]
missing = "f"
[groups]
unit = "household"
most = 3
[groups.roles]
column = "place"
head = "head"
spouse = "partner"
child = "child"
children = 2
[[releases]]
name = "homes"
kind = "mwem"
rounds = 2
attributes = ["age"]
every = 1
rho = 5
rules = {list(RULES)}
[run]
log = "sqlite:homes.db"
public = "sqlite:homes-public.db"
"""
PLACES = ("head", "partner", "child")
ROLES = ["head", "child", "head", "partner", "child"]
ROSTER = Roster({}, list("abcde"), np.array([0, 0, 1, 1, 1]), ROLES)
AGES = (0, 40, 20, 0, 40)  # both heads are younger than the child, and the partner is too young


def due(folder: Path) -> HouseholdFolder:
    """Everybody reported an age that breaks a rule, and the job is due."""
    homes = HouseholdFolder(folder, STUDY)
    send_table(homes.setting, ROSTER)
    said = [report(p, 1, age=age) for p, age in zip(ROSTER.persons, AGES, strict=True)]
    homes.send([*said, close_marker(1, 0)])
    homes.run()
    return homes


def test_what_is_published_keeps_every_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that break a rule are accepted; every synthetic household keeps it."""
    homes = due(tmp_path / "homes")
    homes.work()
    homes.run()
    homes.public().verify()
    monkeypatch.chdir(homes.folder)
    assert main(["verify", "homes.toml"]) == 0
    with closing(SqliteLog(homes.folder / "homes-public.db", readonly=True)) as log:
        certificate = PublicLog(log).published[-1].certificate
    assert certificate.parameters["rules"] == list(RULES)
    assert main(["export", "homes.toml", "homes", "out"]) == 0
    homes_people: dict[int, list[tuple[str, int | str]]] = {}
    for row in pq.read_table("out/people.parquet").to_pylist():
        homes_people.setdefault(row["group"], []).append((row["place"], row["age"]))
    for people in homes_people.values():
        heads = [age for place, age in people if place == "head"]
        for place, age in people:
            assert place != "partner" or age != "0"
            if place == "child" and "absent" not in (str(age), str(heads[0])):
                assert int(age) + 20 <= int(heads[0])


@pytest.mark.parametrize("people", [[("head", 0), ("child", 1)], [("head", 2), ("partner", 0)]])
def test_a_household_that_breaks_a_rule_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, people: list[tuple[str, int]]
) -> None:
    homes, lines = due(tmp_path / "homes"), list[str]()
    job = next(job for entry in homes.entries() for job in entry.jobs)
    names: Mapping[str, Mapping[str, object]] = {
        "groups": {"size": range(1, 4)},
        "people": {"place": PLACES, "age": (0, 20, 40, "absent")},
    }
    codes = np.array([[PLACES.index(place), age] for place, age in people])
    tables = dataset.coded_tables(names, np.array([[1]]), codes, np.zeros(2, np.int64))
    answers = measurement_table(Measurements(("q",), np.array([1]), (Fraction(1),)))
    (release,) = homes.setting.study.batches
    with homes.worker() as worker:
        worker.log.append(
            result_records(
                job=job.id,
                attempt=1,
                writer="w",
                provenance=dataset.Provenance(release.data_set.mechanism, {}, simulated=False),
                parts=dataset.data_set_parts(tables, answers),
            )
        )
    homes.run(tell=lines_to(lines))
    assert not [e for e in homes.entries() if e.result_of]
    assert any("rows or groups that break a rule of the study" in line for line in lines)
    monkeypatch.setattr("stream_dp.services.releaser.table_results.keeps_rules", lambda *_: True)
    homes.run()
    with pytest.raises(Inconsistent, match="homes at 1: a row or a group breaks a rule"):
        homes.public().verify()


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        ('["child.sex <= 3"]', "rules.0: 'sex' is none of the release's attributes"),
        ('["child.age = 3"]', "rules.0: is no rule; write such as"),
        ('["adults of XX: age"]', "rules.0: no age of majority of 'XX' is known, but of AT, "),
        ('["head.age >= 20", "adults of DE: sex"]', "rules.1: 'sex' is none of the release's"),
        ('["other.age >= 3"]', "rules.0: no member is an other"),
        (
            '["head.age <= 20", "child.age + 21 <= head.age"]',
            "rules: no group with head and child can keep",
        ),
        ('"spouse.age >= 20"', "rules: must be a list"),
    ],
)
def test_rules_that_cannot_be_are_refused(tmp_path: Path, rules: str, line: str) -> None:
    (tmp_path / "homes.toml").write_text(
        STUDY.replace(f"rules = {list(RULES)}", f"rules = {rules}")
    )
    with pytest.raises(UserError) as error:
        load_study(tmp_path / "homes.toml")
    (fault,) = error.value.lines
    assert line in fault


def test_rules_need_order_and_roles_and_a_kind_that_keeps_them(tmp_path: Path) -> None:
    file = tmp_path / "homes.toml"
    start, end = STUDY.index("[groups.roles]"), STUDY.index("[[releases]]")
    without = STUDY[:start] + STUDY[end:]
    ordered = STUDY.replace("[0, 20, 40]", '["young", "old"]')
    for text, why in (
        (without, "rules: no [groups.roles] say who is head"),
        (without.replace("mwem", "independent"), "rules: 'independent' has none"),
        (ordered, "rules.0: 'age' has no order: its values must be whole numbers"),
    ):
        file.write_text(text)
        with pytest.raises(UserError) as error:
            load_study(file)
        assert any(why in line for line in error.value.lines)


def test_rules_are_part_of_the_study(tmp_path: Path) -> None:
    """Other rules are another study; no rules and an empty list are the same."""
    file, hashes = tmp_path / "homes.toml", []
    declared = f"rules = {list(RULES)}"
    for rules in (declared, 'rules = ["spouse.age >= 20"]', "rules = []", ""):
        file.write_text(STUDY.replace(declared, rules))
        hashes.append(load_study(file)[0].hash)
    assert hashes[2] == hashes[3]
    assert len(set(hashes)) == 3


def test_a_plan_states_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("homes.toml").write_text(STUDY)
    assert main(["check", "homes.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(rule in said for rule in RULES)
    assert "no rules" not in said
    Path("homes.toml").write_text(STUDY.replace(f"rules = {list(RULES)}", ""))
    assert main(["check", "homes.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no rules: a synthetic head may be a minor" in said
    assert '"adults of COUNTRY: age"' in said
    Path("homes.toml").write_text(
        STUDY.replace(f"rules = {list(RULES)}", 'rules = ["adults of GB: age"]')
    )
    assert main(["check", "homes.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "every group keeps: head.age >= 16" in said
    assert "every group keeps: spouse.age >= 16" in said
