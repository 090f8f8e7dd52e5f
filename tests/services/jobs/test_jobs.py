"""Batch jobs end to end: households' reports in, two tables out; and all that can go wrong."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from kit.households import (
    EVERY,
    LABELS,
    PERIODS,
    TEXT,
    Homes,
    edit,
    report,
    reports,
    roster,
)
from kit.killed import in_memory
from kit.panels import Clock

from stream_dp.errors import Inconsistent, UserError
from stream_dp.release.panels import TOPIC
from stream_dp.services import journal
from stream_dp.services.cli import main
from stream_dp.services.groups.roster import Roster, send_roster
from stream_dp.services.jobs.progress import Progress
from stream_dp.services.jobs.records import progress_record, result_records
from stream_dp.services.markers import close_marker
from stream_dp.services.releaser.listen import ConfidentialMetrics
from stream_dp.services.releaser.setup import worker_command
from stream_dp.services.topics import RESULTS

FAILS = ["-c", "import sys; sys.exit(7)"]
HANGS = ["-c", "import sys; sys.stdin.read()"]
SCHEDULE = TEXT.replace(
    'close = "marker"',
    'close = "schedule"\nzone = "UTC"\nat = 06:00:00\ngrace = "3d"\ndelay = "1h"',
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def homes(folder: Path) -> Homes:
    return Homes(folder / "homes")


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """What a command says as JSON."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    assert main([*map(str, arguments)]) == code
    out, error = capsys.readouterr()
    assert out == ""
    return error


def tables(path: Path) -> tuple[Path, Path]:
    """The roster as two CSV files, in another order and with other keys."""
    held, groups, members = roster(), path / "groups.csv", path / "members.csv"
    rows = [f"h{i:03d},{r}" for i, r in enumerate(held.attributes["region"])]
    groups.write_text("\n".join(["household,region", *rows[::-1]]) + "\n")
    of = [f"{p},h{g:03d}" for p, g in zip(held.persons, held.group_of, strict=True)]
    members.write_text("\n".join(["id,home", *of[::-1]]) + "\n")
    return groups, members


KEYS = ("--group", "household", "--member-group", "home", "--person", "id")


# The whole path


def test_from_reports_to_two_tables(
    homes: Homes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the commands that a user gives, with the worker that `run` starts."""
    file, (groups, members) = homes.file, tables(folder)
    assert "no table of groups was sent" in refused(capsys, 2, "run", file, "--until-idle")
    told = said(capsys, "groups", file, groups, members, *KEYS)
    assert (told["groups"], told["members"]) == (12, len(roster().persons))
    assert not said(capsys, "groups", file, groups, members, *KEYS)["sent"]
    for number in range(1, PERIODS + 1):
        homes.send(reports(number))
        assert main(["close", str(file), LABELS[number - 1]]) == 0
    capsys.readouterr()
    assert said(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    (job,) = said(capsys, "jobs", file)["jobs"]
    assert (job["release"], job["period"], job["state"]) == ("households", LABELS[1], "done")
    assert said(capsys, "status", file)["jobs"][0]["state"] == "done"
    listed = said(capsys, "releases", f"sqlite:{homes.folder / 'homes-public.db'}")["releases"]
    assert [x["release"] for x in listed].count("households") == 1
    verified = said(capsys, "verify", file)["verified"]
    assert "households: 1 data sets, each as its certificate says" in verified
    out = folder / "out"
    assert said(capsys, "export", file, "households", out)["groups"] == 12
    made, people = (pq.read_table(out / f"{name}.parquet") for name in ("groups", "people"))
    assert made.column_names == ["group", "region", "size"]
    assert people.column_names == ["group", "income", "work"]
    assert made["group"].to_pylist() == list(range(12))
    assert np.bincount(people["group"].to_numpy()).tolist() == made["size"].to_pylist()
    assert set(made["region"].to_pylist()) <= {"north", "south"}
    assert set(people["income"].to_pylist()) <= {"low", "high", "absent"}
    assert "export" in refused(capsys, 2, "estimate", file, "households", "x")
    assert "name a folder" in refused(capsys, 2, "export", file, "households", "x.csv")


def test_the_certificate_says_what_was_done(homes: Homes) -> None:
    homes.prepare().run()
    homes.work()
    assert homes.run()
    held = homes.public().data_set("households").certificate
    assert (held.kind, held.period, held.rho) == ("independent", LABELS[1], Fraction(1, 10))
    assert held.neighbours == "replace_in_place"
    assert "household" in held.invariants
    assert held.measured == 2 + 4 + 3 + 2
    assert held.noise.startswith("exact discrete Gaussian")
    assert held.columns["groups"]["size"] == (1, 2, 3, 4)
    assert held.groups == 12
    measured = homes.public().data_set("households").measurements
    # m marginals of squared sensitivity 2, each at rho / m: variance m / rho.
    assert set(measured["variance"].to_pylist()) == {"40"}


def test_columns_have_the_order_of_the_study(folder: Path) -> None:
    """Which is not that of their names: a certificate is JSON with sorted keys."""
    text = TEXT.replace('["income", "work"]', '["work", "income"]').replace(".region]", ".zone]")
    homes = Homes(folder / "homes", text)
    held = roster()
    regions = held.attributes["region"]
    send_roster(homes.setting, Roster({"zone": regions}, held.persons, held.group_of))
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
    homes = Homes(folder / "homes", EVERY).prepare()
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


def test_a_snapshot_holds_codes_and_no_ids(homes: Homes) -> None:
    homes.prepare().run()
    (path,) = (homes.folder / "homes-snapshots").glob("*-people-*")
    table = pq.read_table(path)
    assert table.column_names == ["group", "income", "work"]
    assert all(str(t).startswith(("int", "uint")) for t in table.schema.types)
    assert path.stat().st_mode & 0o077 == 0
    told = dict(zip(roster().persons, reports(2), strict=False))
    for row, person in enumerate(roster().persons):
        values = json.loads(told[person].value or b"")["values"]
        assert table["work"][row].as_py() == values["work"]
        assert table["income"][row].as_py() == ["low", "high"].index(values["income"])


# One person


@pytest.mark.parametrize("change", ["other values", "silent", "first", "crowd"])
def test_one_person_changes_their_own_row_and_no_other(folder: Path, change: str) -> None:
    """Also where strangers would fill every place: members have theirs before anybody reports."""
    found = []
    for changed in (False, True):
        homes = Homes(folder / str(changed))
        send_roster(homes.setting, roster())
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
        held = {}
        for which in ("groups", "people"):
            (path,) = (homes.folder / "homes-snapshots").glob(f"*-{which}-*")
            held[which] = pq.read_table(path).to_pylist()
        found.append(held)
    assert found[0]["groups"] == found[1]["groups"]
    differ = [
        i for i, (a, b) in enumerate(zip(*(f["people"] for f in found), strict=True)) if a != b
    ]
    assert set(differ) <= {7}


@pytest.mark.parametrize("lost", ["latest", "all"])
def test_members_keep_their_places_where_snapshots_are_lost(folder: Path, lost: str) -> None:
    """The input is replayed from the beginning, members first."""
    found = []
    for lose in (False, True):
        homes = Homes(folder / str(lose), EVERY).prepare(2)
        homes.run()
        if lose:
            kept = sorted((homes.folder / "homes-snapshots").glob("*-period-*"))
            for path in kept if lost == "all" else kept[-1:]:
                path.unlink()
        homes.send([*reports(3), close_marker(3, 0)])
        homes.run()
        (path,) = (homes.folder / "homes-snapshots").glob(f"*-{LABELS[2]}-*-people-*")
        found.append(pq.read_table(path).to_pylist())
    assert found[0] == found[1]


# What fails, waits or is given up


def test_a_failing_worker_holds_back_no_continual_release(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes, told = Homes(folder / "homes", EVERY).prepare(), list[str]()
    assert not homes.run(worker=FAILS, tell=told.append)
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "pairs"]
    failed = [line for line in told if "failed: the worker ended with exit code 7" in line]
    assert len(failed) == PERIODS
    assert "--retry" in failed[0]
    held = said(capsys, "jobs", homes.file)["jobs"]
    assert [job["state"] for job in held] == ["failed"] * PERIODS
    assert main(["run", str(homes.file), "--until-idle"]) == 1  # a batch script must know
    capsys.readouterr()
    # Nobody but the operator tries it again.
    assert not homes.run(worker=worker_command(homes.setting))
    for job in held:
        said(capsys, "jobs", homes.file, "--retry", job["id"])
    assert homes.run(worker=worker_command(homes.setting))
    assert [job["state"] for job in said(capsys, "jobs", homes.file)["jobs"]] == ["done"] * 3
    homes.public().verify()


def test_a_worker_that_hangs_holds_back_no_continual_release(homes: Homes) -> None:
    send_roster(homes.setting, roster())
    homes.send([*reports(1), close_marker(1, 0), *reports(2), close_marker(2, 0)])
    stop, told = threading.Event(), list[str]()
    with homes.releaser(worker=HANGS, stop=stop, tell=told.append) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        deadline = time.monotonic() + 30
        try:
            while not releaser.facts.jobs and time.monotonic() < deadline:
                time.sleep(0.02)
            homes.send([*reports(3), close_marker(3, 0)])
            while f"published {LABELS[2]}" not in told and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            stop.set()
            thread.join(30)
    assert f"published {LABELS[2]}" in told
    assert not thread.is_alive()


def test_an_abandoned_job_is_charged_and_never_published(
    homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare()
    assert not homes.run()
    (job,) = said(capsys, "jobs", homes.file)["jobs"]
    assert job["state"] == "waiting"
    assert "is waiting" in refused(capsys, 2, "jobs", homes.file, "--retry", job["id"])
    assert "no such job" in refused(capsys, 2, "jobs", homes.file, "--abandon", "x")
    said(capsys, "jobs", homes.file, "--abandon", job["id"])
    assert "is abandoned" in refused(capsys, 2, "jobs", homes.file, "--abandon", job["id"])
    homes.work()
    assert homes.run()
    assert homes.rows(RESULTS) == []
    assert said(capsys, "status", homes.file)["rho_spent"] == "3/10"
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "pairs"]
    left = [p.name for p in (homes.folder / "homes-snapshots").iterdir()]
    assert not [name for name in left if "-job-" in name]
    homes.public().verify()


def test_a_job_that_is_abandoned_while_it_is_fitted(
    homes: Homes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.services.synthesizer.worker._LOOK", -1)
    homes.prepare().run()

    def at(step: str) -> None:
        if step == "recorded":
            (job,) = said(capsys, "jobs", homes.file)["jobs"]
            if job["state"] != "abandoned":
                assert job["state"] == "running"
                said(capsys, "jobs", homes.file, "--abandon", job["id"])

    homes.work(at=at)
    assert homes.rows(RESULTS) == []
    assert homes.run()


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_snapshot_that_is_not_the_journals(
    homes: Homes, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare().run()
    (path,) = (homes.folder / "homes-snapshots").glob("*-people-*")
    path.write_bytes(path.read_bytes()[:-1]) if how == "changed" else path.unlink()
    homes.work()
    (job,) = said(capsys, "jobs", homes.file)["jobs"]
    assert job["state"] == "failed"
    assert "snapshot" in job["reason"]


@pytest.mark.parametrize("wrong", ["parts", "head", "simulated", "incomplete"])
def test_a_result_that_is_none_is_not_taken(homes: Homes, wrong: str) -> None:
    homes.prepare().run()
    job = next(job for entry in homes.entries() for job in entry.jobs)
    head = {"mechanism": "m", "notes": {}, "simulated": wrong == "simulated"}
    with homes.worker() as worker:
        from stream_dp.privacy.measurements import Measurements
        from stream_dp.release.arrow import measurement_table
        from stream_dp.release.data_sets import coded_tables as made
        from stream_dp.release.data_sets import data_set_parts

        names = {"groups": ["region", "size"], "people": ["income", "work"]}
        codes = np.zeros((1, 2), np.int64)
        answers = measurement_table(Measurements(("q",), np.array([1]), (Fraction(1),)))
        sound = data_set_parts(made(names, codes, codes, np.zeros(1, np.int64)), answers)
        if wrong == "parts":
            sound = sound[:1] + sound[2:]
        if wrong == "head":
            del head["mechanism"]
        found = result_records(job.id, 1, "w", head, sound)
        if wrong == "incomplete":
            found = found[1:]
        worker.log.append(found)
    told: list[str] = []
    homes.run(tell=told.append)
    assert not [e for e in homes.entries() if e.result_of]
    assert (wrong == "incomplete") == (not [line for line in told if "failed" in line])


def test_a_worker_of_another_study_does_nothing(
    homes: Homes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare().run()
    homes.file.write_text(TEXT.replace("rho = 0.1", "rho = 0.11"))
    homes.work()
    homes.file.write_text(TEXT)
    (job,) = said(capsys, "jobs", homes.file)["jobs"]
    assert job["reason"] == "the worker's study file is not the one that the job is of"


# The table of groups


def test_another_table_is_refused_once_the_study_has_begun(
    homes: Homes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_roster(homes.setting, roster(3))
    assert send_roster(homes.setting, roster())
    homes.prepare().run()
    assert not send_roster(homes.setting, roster())
    with pytest.raises(UserError, match="begun with another table"):
        send_roster(homes.setting, roster(seed=6))
    edit(homes, "DELETE FROM records WHERE topic = ?", "journal")
    kept = homes.folder / "homes-public.db"
    kept.unlink()
    assert send_roster(homes.setting, roster(seed=6))


def test_a_table_that_was_changed_behind_its_back(homes: Homes, folder: Path) -> None:
    homes.prepare().run()
    other = Homes(folder / "other").prepare()
    send_roster(other.setting, roster(seed=6))
    edit(homes, "DELETE FROM records WHERE topic = ?", "groups")
    with homes.log() as log:
        from stream_dp.log.base import Record

        log.append(
            Record("groups", value, key, tuple(msgspec.msgpack.decode(h)), 0, at)
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
    groups: str, members: str, line: str, homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    files = homes.folder / "g.csv", homes.folder / "m.csv"
    for path, text in zip(files, (groups, members), strict=True):
        path.write_text(text)
    assert line in refused(capsys, 2, "groups", homes.file, *files)


# Time, journals, declarations


def test_a_data_set_is_not_public_before_its_periods_time(folder: Path) -> None:
    homes, clock = Homes(folder / "homes", SCHEDULE), Clock(1_609_459_200.0)
    send_roster(homes.setting, roster())
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
    time_of = {row[2] for row in homes.rows(TOPIC)}
    assert 1000 * (closes[1] + 3600) in time_of


def test_a_journal_that_takes_a_result_of_no_job(homes: Homes) -> None:
    homes.prepare().run()
    homes.work()
    homes.run()
    entries = homes.entries()
    job = next(job for entry in entries for job in entry.jobs)
    with homes.log() as log:
        again = journal.result(entries[-1].message, job, "0" * 64, [], [])
        log.append(journal.journal_records(again, homes.setting.study))
    with pytest.raises(Inconsistent, match="takes a result that no job waits for"):
        homes.run()


def test_where_the_worker_runs(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_command(homes.setting) is not None
    homes.file.write_text(TEXT + "worker = false\n")
    assert worker_command(homes.setting) is None
    homes.file.write_text(TEXT.replace("sqlite:homes.db", "kafka://x:1/p"))
    assert worker_command(homes.setting) is None
    homes.file.write_text(TEXT)
    monkeypatch.setattr("stream_dp.batch.kinds.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"run\.worker: kind 'independent'"):
        worker_command(homes.setting)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"replace_in_place"', '"replace_one"', "under 'replace_one' is not proved"),
        ('at = ["2021-02"]', "every = 4", "releases[2].every: 4 periods is over the horizon"),
        ('at = ["2021-02"]', "every = 1\nat = ['2021-01']", "releases[2]: declare every"),
        ('at = ["2021-02"]', 'at = ["2022-02"]', "releases[2].at: '2022-02' is none"),
        ('["income", "work"]', '["income", "age"]', "no attribute 'age' is declared"),
        ("[groups.attributes.region]", "[groups.attributes.size]", "'size': reserved"),
        ("[groups.attributes.region]", "[groups.attributes.work]", "'work': declared twice"),
        ('unit = "household"\n', "", "groups.unit: is required"),
        ('unit = "household"\n', 'unit = "person"\n', "study.unit: 'person' is what groups"),
        ('at = ["2021-02"]', "every = 1\nrows = 9", "releases[2].rows: 'independent' fits no"),
        ("rho = 0.1\n", "rho = 0.5\n", "their rhos add up to 0.7"),
    ],
)
def test_faults_of_a_declaration(
    old: str, new: str, line: str, homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in TEXT
    homes.file.write_text(TEXT.replace(old, new))
    assert line in refused(capsys, 2, "check", homes.file)


def test_confidential_metrics_of_jobs(homes: Homes) -> None:
    """What its worker told, from wherever it runs."""
    homes.prepare().run()
    (job,) = (job.id for entry in homes.entries() for job in entry.jobs)
    with homes.log() as log:
        log.append([progress_record(Progress(job, 3, 20, 1.5, math.nan))])
    with homes.releaser() as releaser:
        releaser.run(until_idle=True)
        found = ConfidentialMetrics(releaser.facts).collect()
    samples = {s.name: s.value for metric in found for s in metric.samples}
    assert samples["stream_dp_job_done"] == 3
    assert samples["stream_dp_job_rounds"] == 20
    assert samples["stream_dp_job_error"] == 1.5
    assert math.isnan(samples["stream_dp_job_left_seconds"])
    assert samples["stream_dp_job"] == 1


# The worker beside the releaser


def test_a_worker_that_is_killed(homes: Homes, capsys: pytest.CaptureFixture[str]) -> None:
    homes.prepare()
    assert not homes.run(worker=["-c", "import os; os.kill(os.getpid(), 9)"])
    (job,) = said(capsys, "jobs", homes.file)["jobs"]
    assert (job["state"], job["reason"]) == ("failed", "the worker ended with signal 9")


@pytest.mark.parametrize("code", [0, 5])
def test_a_worker_that_found_nothing_is_started_again_later(homes: Homes, code: int) -> None:
    homes.prepare(1)
    homes.file.write_text(EVERY)
    started: list[str] = []
    command = ["-c", f"import sys; sys.exit({code})"]
    with homes.releaser(worker=command, at=started.append) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        time.sleep(2)
        releaser.stop.set()
        thread.join(30)
        assert [held.state for held in releaser.facts.jobs.values()] == ["waiting"]
    assert started.count("worker-started") == 1


def test_the_worker_ends_with_its_parent(homes: Homes) -> None:
    homes.prepare(1).run()
    command = worker_command(homes.setting)
    assert command is not None
    command = [word for word in command if word != "--until-idle"]
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        time.sleep(1)
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(30) == 0
