"""The worker beside the releaser: where it runs and how it ends; no release waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit.commands import json_output
from kit.events import lines_to
from kit.households import (
    EVERY,
    LABELS,
    PERIODS,
    TEXT,
    HouseholdFolder,
    reports,
    roster,
)

from stream_dp.errors import UserError
from stream_dp.services.cli import main
from stream_dp.services.groups.roster import send_roster
from stream_dp.services.markers import close_marker
from stream_dp.services.releaser.setup import worker_command

FAILS = ["-c", "import sys; sys.exit(7)"]

HANGS = ["-c", "import sys; sys.stdin.read()"]


def test_a_failing_worker_holds_back_no_continual_release(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes, lines = HouseholdFolder(folder / "homes", EVERY).prepare(), list[str]()
    assert not homes.run(worker=FAILS, tell=lines_to(lines))
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "pairs"]
    failed = [line for line in lines if "failed: the worker ended with exit code 7" in line]
    assert len(failed) == PERIODS
    assert "--retry" in failed[0]
    jobs = json_output(capsys, "jobs", homes.file)["jobs"]
    assert [job["state"] for job in jobs] == ["failed"] * PERIODS
    assert main(["run", str(homes.file), "--until-idle"]) == 1  # a batch script must know
    capsys.readouterr()
    # Nobody but the operator tries it again.
    assert not homes.run(worker=worker_command(homes.setting))
    for job in jobs:
        json_output(capsys, "jobs", homes.file, "--retry", job["id"])
    assert homes.run(worker=worker_command(homes.setting))
    assert [job["state"] for job in json_output(capsys, "jobs", homes.file)["jobs"]] == ["done"] * 3
    homes.public().verify()


def test_a_worker_that_hangs_holds_back_no_continual_release(homes: HouseholdFolder) -> None:
    send_roster(homes.setting, roster())
    homes.send([*reports(1), close_marker(1, 0), *reports(2), close_marker(2, 0)])
    stop, lines = threading.Event(), list[str]()
    with homes.releaser(worker=HANGS, stop=stop, tell=lines_to(lines)) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        deadline = time.monotonic() + 120
        try:
            while not releaser.facts.jobs and time.monotonic() < deadline:
                time.sleep(0.02)
            homes.send([*reports(3), close_marker(3, 0)])
            while f"published {LABELS[2]}" not in lines and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            stop.set()
            thread.join(300)
    assert f"published {LABELS[2]}" in lines
    assert not thread.is_alive()


def test_where_the_worker_runs(homes: HouseholdFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_command(homes.setting) is not None
    homes.file.write_text(TEXT + "worker = false\n")
    assert worker_command(homes.setting) is None
    homes.file.write_text(TEXT.replace("sqlite:homes.db", "kafka://x:1/p"))
    assert worker_command(homes.setting) is None
    homes.file.write_text(TEXT)
    monkeypatch.setattr("stream_dp.batch.kinds.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"run\.worker: kind 'independent'"):
        worker_command(homes.setting)


def test_a_worker_that_is_killed(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare()
    assert not homes.run(worker=["-c", "import os; os.kill(os.getpid(), 9)"])
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert (job["state"], job["reason"]) == ("failed", "the worker ended with signal 9")


@pytest.mark.parametrize("code", [0, 5])
def test_a_worker_without_a_job_is_started_again_later(homes: HouseholdFolder, code: int) -> None:
    homes.prepare(1)
    homes.file.write_text(EVERY)
    started: list[str] = []
    command = ["-c", f"import sys; sys.exit({code})"]
    with homes.releaser(worker=command, at=started.append) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        deadline = time.monotonic() + 120
        while not (started and releaser.facts.jobs) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(2)  # in which it is not started again
        releaser.stop.set()
        thread.join(300)
        assert [job.state for job in releaser.facts.jobs.values()] == ["waiting"]
    assert started.count("worker-started") == 1


def test_the_worker_ends_with_its_parent(homes: HouseholdFolder) -> None:
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
        assert child.wait(300) == 0
