"""Batch jobs that fail or are abandoned, snapshots and results that are not a job's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from kit.commands import json_output, refusal
from kit.events import lines_to
from kit.households import (
    TEXT,
    HouseholdFolder,
    handed_in,
)

from stream_dp.errors import Inconsistent
from stream_dp.log.message import canonical
from stream_dp.privacy.noise import Measurements
from stream_dp.release.arrow_parts import measurement_table
from stream_dp.release.published_tables import Provenance, coded_tables, data_set_parts
from stream_dp.services.storage import journal
from stream_dp.services.storage.job_records import json_object, result_records
from stream_dp.study.topics import RESULTS


def test_an_abandoned_job_is_charged_and_never_published(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare()
    assert not homes.run()
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert job["state"] == "waiting"
    assert "is waiting" in refusal(capsys, 2, "jobs", homes.file, "--retry", job["id"])
    assert "no such job" in refusal(capsys, 2, "jobs", homes.file, "--abandon", "x")
    json_output(capsys, "jobs", homes.file, "--abandon", job["id"])
    assert "is abandoned" in refusal(capsys, 2, "jobs", homes.file, "--abandon", job["id"])
    homes.work()
    assert homes.run()
    assert homes.rows(RESULTS) == []
    assert json_output(capsys, "status", homes.file)["rho_spent"] == "3/10"
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "pairs"]
    left = [p.name for p in (homes.folder / "homes-snapshots").iterdir()]
    assert not [name for name in left if "-job-" in name]
    homes.public().verify()


def test_a_job_that_is_abandoned_while_it_is_fitted(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.services.releaser.worker._LOOK", -1)
    homes.prepare().run()

    def at(step: str) -> None:
        if step == "recorded":
            (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
            if job["state"] != "abandoned":
                assert job["state"] == "running"
                json_output(capsys, "jobs", homes.file, "--abandon", job["id"])

    homes.work(at=at)
    assert homes.rows(RESULTS) == []
    assert homes.run()


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_snapshot_that_is_not_the_journals(
    homes: HouseholdFolder, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare().run()
    (path,) = (homes.folder / "homes-snapshots").glob("*-people-*")
    path.write_bytes(path.read_bytes()[:-1]) if how == "changed" else path.unlink()
    homes.work()
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert job["state"] == "failed"
    assert "snapshot" in job["reason"]


@pytest.mark.parametrize("wrong", ["parts", "head", "simulated", "incomplete"])
def test_a_result_that_is_none_is_not_accepted(homes: HouseholdFolder, wrong: str) -> None:
    homes.prepare().run()
    job = next(job for entry in homes.entries() for job in entry.jobs)
    provenance = Provenance("m", {}, simulated=wrong == "simulated")
    with homes.worker() as worker:
        names = {
            "groups": {"region": ["north", "south"], "size": [1, 2, 3, 4]},
            "people": {"income": ["low", "high", "absent"], "work": [0, 1]},
        }
        codes = np.zeros((1, 2), np.int64)
        answers = measurement_table(Measurements(("q",), np.array([1]), (Fraction(1),)))
        parts = data_set_parts(coded_tables(names, codes, codes, np.zeros(1, np.int64)), answers)
        if wrong == "parts":
            parts = parts[:1] + parts[2:]
        records = result_records(
            job=job.id, attempt=1, writer="w", provenance=provenance, parts=parts
        )
        if wrong == "head":
            manifest = json_object(records[-1].value)
            del manifest["mechanism"]
            records[-1] = replace(records[-1], value=canonical(manifest))
        if wrong == "incomplete":
            records = records[1:]
        worker.log.append(records)
    lines: list[str] = []
    homes.run(tell=lines_to(lines))
    assert not [e for e in homes.entries() if e.result_of]
    assert (wrong == "incomplete") == (not [line for line in lines if "failed" in line])


def test_a_worker_of_another_study_does_nothing(homes: HouseholdFolder) -> None:
    homes.prepare().run()
    homes.file.write_text(TEXT.replace("rho = 0.1", "rho = 0.11"))
    with pytest.raises(Inconsistent, match=r"releases\.households\.rho"):
        homes.work()
    homes.file.write_text(TEXT)
    homes.work()
    assert handed_in(homes) == 1


def test_a_journal_that_takes_a_result_of_no_job(homes: HouseholdFolder) -> None:
    homes.prepare().run()
    homes.work()
    homes.run()
    entries = homes.entries()
    job = next(job for entry in entries for job in entry.jobs)
    with homes.log() as log:
        again = journal.result(entries[-1].message, job, digest="0" * 64, public=[], hashes=[])
        log.append(journal.journal_records(again, homes.setting.study))
    with pytest.raises(Inconsistent, match="takes a result that no job waits for"):
        homes.run()


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
        ('at = ["2021-02"]', "every = 1\nrows = 9", "releases[2].rows: 'independent' has none"),
        ("rho = 0.1\n", "rho = 0.5\n", "their rhos add up to 0.7"),
    ],
)
def test_faults_of_a_declaration(
    old: str, new: str, line: str, homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in TEXT
    homes.file.write_text(TEXT.replace(old, new))
    assert line in refusal(capsys, 2, "check", homes.file)
