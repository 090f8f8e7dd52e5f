"""Batch jobs end to end: households' reports in, two tables out."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from kit.commands import json_output, refusal
from kit.households import (
    EVERY,
    LABELS,
    PERIODS,
    TEXT,
    HouseholdFolder,
    report,
    reports,
    roster,
)
from kit.panels import Clock
from kit.studies import SCHEDULE, toml_lines

from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import Roster, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.metrics_listeners import ConfidentialMetrics
from stream_dp.services.storage.job_records import Progress, progress_record
from stream_dp.study.topics import RELEASES

ON_SCHEDULE = TEXT.replace('close = "marker"', toml_lines(SCHEDULE))


def tables(path: Path) -> tuple[Path, Path]:
    """The roster as two CSV files, in another order and with other keys."""
    table, groups, members = roster(), path / "groups.csv", path / "members.csv"
    rows = [f"h{i:03d},{r}" for i, r in enumerate(table.attributes["region"])]
    groups.write_text("\n".join(["household,region", *rows[::-1]]) + "\n")
    of = [f"{p},h{g:03d}" for p, g in zip(table.persons, table.group_of, strict=True)]
    members.write_text("\n".join(["id,home", *of[::-1]]) + "\n")
    return groups, members


KEYS = ("--group", "household", "--member-group", "home", "--person", "id")


def test_from_reports_to_two_tables(
    homes: HouseholdFolder, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the commands that a user gives, with the worker that `run` starts."""
    file, (groups, members) = homes.file, tables(folder)
    assert "no table of groups was sent" in refusal(capsys, 2, "run", file, "--until-idle")
    answer = json_output(capsys, "groups", file, groups, members, *KEYS)
    assert (answer["groups"], answer["members"]) == (12, len(roster().persons))
    assert not json_output(capsys, "groups", file, groups, members, *KEYS)["sent"]
    for number in range(1, PERIODS + 1):
        homes.send(reports(number))
        assert main(["close", str(file), LABELS[number - 1]]) == 0
    capsys.readouterr()
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    (job,) = json_output(capsys, "jobs", file)["jobs"]
    assert (job["release"], job["period"], job["state"]) == ("households", LABELS[1], "done")
    assert json_output(capsys, "status", file)["jobs"][0]["state"] == "done"
    listed = json_output(capsys, "releases", f"sqlite:{homes.folder / 'homes-public.db'}")[
        "releases"
    ]
    assert [x["release"] for x in listed].count("households") == 1
    verified = json_output(capsys, "verify", file)["verified"]
    assert "households: 1 data set, as its certificate says" in verified
    out = folder / "out"
    assert json_output(capsys, "export", file, "households", out)["groups"] == 12
    households, people = (pq.read_table(out / f"{name}.parquet") for name in ("groups", "people"))
    assert households.column_names == ["group", "region", "size"]
    assert people.column_names == ["group", "income", "work"]
    assert households["group"].to_pylist() == list(range(12))
    assert np.bincount(people["group"].to_numpy()).tolist() == households["size"].to_pylist()
    assert set(households["region"].to_pylist()) <= {"north", "south"}
    assert set(people["income"].to_pylist()) <= {"low", "high", "absent"}
    assert "'x' is no column" in refusal(capsys, 2, "estimate", file, "households", "x")
    assert "name a folder" in refusal(capsys, 2, "export", file, "households", "x.csv")
    sheets = json_output(capsys, "export", file, "households", folder / "homes.xlsx")
    assert sheets["rows"]["groups"] == 12
    book = openpyxl.load_workbook(folder / "homes.xlsx")
    assert book.sheetnames == ["groups", "people", "measurements"]
    rows = [[cell.value for cell in row] for row in book["people"].iter_rows()]
    assert rows == [people.column_names, *(list(row.values()) for row in people.to_pylist())]


def test_the_certificate_says_what_was_done(homes: HouseholdFolder) -> None:
    homes.prepare().run()
    homes.work()
    assert homes.run()
    certificate = homes.public().data_set("households").certificate
    assert (certificate.kind, certificate.period, certificate.rho) == (
        "independent",
        LABELS[1],
        Fraction(1, 10),
    )
    assert certificate.neighbours == "replace_in_place"
    assert "household" in certificate.invariants
    assert certificate.measured == 2 + 4 + 3 + 2
    assert certificate.noise.startswith("exact discrete Gaussian")
    assert certificate.columns["groups"]["size"] == (1, 2, 3, 4)
    assert certificate.groups == 12
    measured = homes.public().data_set("households").measurements
    # m marginals of members, of squared sensitivity 2, each at rho / m: variance m / rho. Those of
    # groups have the same noise, and nobody's change moves them.
    assert set(measured["variance"].to_pylist()) == {"20"}


def test_columns_have_the_order_of_the_study(folder: Path) -> None:
    """And not that of their names, though a certificate is JSON with sorted keys."""
    text = TEXT.replace('["income", "work"]', '["work", "income"]').replace(".region]", ".zone]")
    homes = HouseholdFolder(folder / "homes", text)
    table = roster()
    regions = table.attributes["region"]
    send_table(homes.setting, Roster({"zone": regions}, table.persons, table.group_of))
    for number in range(1, PERIODS + 1):
        homes.send([*reports(number), close_marker(number, 0)])
    homes.run()
    homes.work()
    assert homes.run()
    public = homes.public()
    public.verify()
    groups, people = public.data_set("households").tables
    assert groups.column_names == ["group", "zone", "size"]
    assert people.column_names == ["group", "work", "income"]
    assert set(people["income"].to_pylist()) <= {"low", "high", "absent"}


def test_every_job_of_a_schedule_is_charged_and_released_in_order(folder: Path) -> None:
    homes = HouseholdFolder(folder / "homes", EVERY).prepare()
    homes.run()
    homes.work()
    assert homes.run()
    entries = homes.entries()
    assert [(e.result_of is None, e.number) for e in entries[4:]] == [
        (False, n) for n in range(1, PERIODS + 1)
    ]
    spent = [d.certificate.rho_spent for d in homes.public().published]
    assert spent == sorted(spent)
    assert spent[-1] == Fraction(1, 5) + 3 * Fraction(1, 10)
    assert [c.release for c in entries[1].charges] == ["households"]
    homes.public().verify()


def test_a_snapshot_holds_codes_and_no_ids(homes: HouseholdFolder) -> None:
    homes.prepare().run()
    (path,) = (homes.folder / "homes-snapshots").glob("*-people-*")
    table = pq.read_table(path)
    assert table.column_names == ["group", "income", "work"]
    assert all(str(t).startswith(("int", "uint")) for t in table.schema.types)
    assert path.stat().st_mode & 0o077 == 0
    sent = dict(zip(roster().persons, reports(2), strict=False))
    for row, person in enumerate(roster().persons):
        values = json.loads(sent[person].value or b"")["values"]
        assert table["work"][row].as_py() == values["work"]
        assert table["income"][row].as_py() == ["low", "high"].index(values["income"])


@pytest.mark.parametrize("change", ["other values", "silent", "first", "crowd"])
def test_one_person_changes_their_own_row_and_no_other(folder: Path, change: str) -> None:
    """Also where reports of strangers could fill every slot, as members are enrolled first."""
    snapshots = []
    for changed in (False, True):
        homes = HouseholdFolder(folder / str(changed))
        send_table(homes.setting, roster())
        for number in range(1, PERIODS + 1):
            sent = reports(number)
            if change == "crowd":
                sent = [report(f"stranger-{i}", number, work=1) for i in range(60)] + sent
            own = [r for r in sent if b'"p07"' in (r.value or b"")]
            others = [r for r in sent if r not in own]
            assert len(own) == 1
            if changed:
                more = [report("p07", number, income="low", work=1)]
                sent = {
                    "other values": [*others, *more],
                    "silent": others,
                    "first": [*own, *others],
                    "crowd": [*others, *more],
                }[change]
            homes.send([*sent, close_marker(number, 0)])
        homes.run()
        contents = {}
        for which in ("groups", "people"):
            (path,) = (homes.folder / "homes-snapshots").glob(f"*-{which}-*")
            contents[which] = pq.read_table(path).to_pylist()
        snapshots.append(contents)
    assert snapshots[0]["groups"] == snapshots[1]["groups"]
    differ = [
        i for i, (a, b) in enumerate(zip(*(f["people"] for f in snapshots), strict=True)) if a != b
    ]
    assert set(differ) <= {7}


@pytest.mark.parametrize("lost", ["latest", "all"])
def test_members_keep_their_places_where_snapshots_are_lost(folder: Path, lost: str) -> None:
    """The input is replayed from the beginning, after the members are enrolled."""
    snapshots = []
    for lose in (False, True):
        homes = HouseholdFolder(folder / str(lose), EVERY).prepare(2)
        homes.run()
        if lose:
            kept = sorted((homes.folder / "homes-snapshots").glob("*-period-*"))
            for path in kept if lost == "all" else kept[-1:]:
                path.unlink()
        homes.send([*reports(3), close_marker(3, 0)])
        homes.run()
        (path,) = (homes.folder / "homes-snapshots").glob(f"*-{LABELS[2]}-*-people-*")
        snapshots.append(pq.read_table(path).to_pylist())
    assert snapshots[0] == snapshots[1]


def test_a_data_set_is_not_public_before_its_periods_time(folder: Path) -> None:
    homes, clock = HouseholdFolder(folder / "homes", ON_SCHEDULE), Clock(1_609_459_200.0)
    send_table(homes.setting, roster())
    homes.send(reports(1))
    closes = [homes.setting.study.periods.close_time(n) or 0 for n in (1, 2, 3)]
    for number in (1, 2):
        clock.now = closes[number - 1] + 1
        homes.run(clock=clock)
    assert [job for entry in homes.entries() for job in entry.jobs]
    homes.work()
    homes.run(clock=clock)
    assert not [d for d in homes.public().published if d.certificate.release == "households"]
    clock.now = closes[1] + 3601
    homes.run(clock=clock)
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "households"]
    time_of = {row[2] for row in homes.rows(RELEASES)}
    assert 1000 * (closes[1] + 3600) in time_of


def test_confidential_metrics_of_jobs(homes: HouseholdFolder) -> None:
    """The progress that a worker reported, wherever it runs."""
    homes.prepare().run()
    (job,) = (job.id for entry in homes.entries() for job in entry.jobs)
    with homes.log() as log:
        log.append(
            [progress_record(Progress(job=job, done=3, rounds=20, error=1.5, left=math.nan))]
        )
    with homes.releaser() as releaser:
        releaser.run(until_idle=True)
        metrics = ConfidentialMetrics(releaser.context.facts).collect()
    samples = {s.name: s.value for metric in metrics for s in metric.samples}
    assert samples["stream_dp_job_done"] == 3
    assert samples["stream_dp_job_rounds"] == 20
    assert samples["stream_dp_job_error"] == 1.5
    assert math.isnan(samples["stream_dp_job_left_seconds"])
    assert samples["stream_dp_job"] == 1
