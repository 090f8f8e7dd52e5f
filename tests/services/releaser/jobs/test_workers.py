"""The worker beside the releaser: where it runs and how it ends; no release waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kit.commands import json_output
from kit.events import lines_to
from kit.households import (
    EVERY,
    LABELS,
    PERIODS,
    ROUNDS,
    TEXT,
    HouseholdFolder,
    reports,
    roster,
)

from stream_dp.errors import UserError
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser import batch_jobs as jobs_module
from stream_dp.services.releaser.deployed_releaser import worker_command
from stream_dp.services.storage.job_records import interruption_record, operator_word

FAILS = ["-c", "import sys; sys.exit(2)"]

HANGS = ["-c", "import sys; sys.stdin.read()"]


def test_a_failing_worker_holds_back_no_continual_release(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes, lines = HouseholdFolder(folder / "homes", EVERY).prepare(), list[str]()
    assert not homes.run(worker=FAILS, tell=lines_to(lines))
    assert [d.certificate.release for d in homes.public().published] == ["pairs", "pairs"]
    failed = [line for line in lines if "failed: the worker ended with exit code 2" in line]
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
    send_table(homes.setting, roster())
    homes.send([*reports(1), close_marker(1, 0), *reports(2), close_marker(2, 0)])
    stop, lines = threading.Event(), list[str]()
    with homes.releaser(worker=HANGS, stop=stop, tell=lines_to(lines)) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        deadline = time.monotonic() + 120
        try:
            while not releaser.context.facts.jobs and time.monotonic() < deadline:
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


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("raise MemoryError", "exit code 1: MemoryError"),
        ("import sys; sys.exit(137)", "exit code 137"),
    ],
)
def test_a_job_whose_worker_is_always_killed_fails_after_three_retries(
    homes: HouseholdFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    ending: str,
) -> None:
    monkeypatch.setattr(jobs_module, "_BACK_OFF", 0.01)
    homes.prepare()
    killed, lines, steps = ["-c", program], list[str](), list[str]()
    assert not homes.run(worker=killed, tell=lines_to(lines), at=steps.append)
    assert steps.count("worker-started") == 4
    assert [line.rpartition("(")[2] for line in lines if "goes on" in line] == [
        "1 of 3 retries)",
        "2 of 3 retries)",
        "3 of 3 retries)",
    ]
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    reason = f"the worker ended with {ending}; 3 retries did not help"
    assert (job["state"], job["reason"]) == ("failed", reason)
    # An operator's retry is an attempt of its own, with as many retries.
    json_output(capsys, "jobs", homes.file, "--retry", job["id"])
    assert not homes.run(worker=killed, worker_retries=0)
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert (job["state"], job["reason"]) == ("failed", f"the worker ended with {ending}")


@pytest.mark.parametrize("code", [2, 3, 4])
def test_an_exit_code_that_another_worker_would_repeat_fails_the_job_at_once(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    homes.prepare()
    steps = list[str]()
    assert not homes.run(worker=["-c", f"import sys; sys.exit({code})"], at=steps.append)
    assert steps.count("worker-started") == 1
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert (job["state"], job["reason"]) == ("failed", f"the worker ended with exit code {code}")


def test_a_worker_by_itself_that_its_job_kills_does_not_loop_for_ever(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each round that is decided starts the count anew; an operator's retry does, too."""

    class Killed(BaseException):
        pass

    def killed_at(count: int) -> Callable[[str], None]:
        seen = iter(range(count))

        def at(step: str) -> None:
            if step == "round" and next(seen, None) is None:
                raise Killed

        return at

    homes.prepare().run()
    for rounds in (0, 1, 0, 0):  # decided before the kill
        with pytest.raises(Killed):
            homes.work(retries=1, at=killed_at(rounds))
    homes.work(retries=1)
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert job["state"] == "failed"
    assert job["reason"].startswith("2 workers ended in silence after 1 rounds")
    json_output(capsys, "jobs", homes.file, "--retry", job["id"])
    homes.work(retries=1)
    assert homes.run()
    homes.public().verify()


def test_a_worker_by_itself_that_is_stopped_lets_go_of_its_job(homes: HouseholdFolder) -> None:
    def stop_at_progress(stop: threading.Event, step: str) -> None:
        if step == "progress":
            stop.set()

    homes.prepare().run()
    for _ in range(5):
        with homes.worker(retries=0) as worker:
            worker.at = partial(stop_at_progress, worker.stop)
            worker.run(until_idle=True)
    homes.work(retries=0)
    assert homes.run()


def test_a_job_goes_on_from_its_transcript_after_its_worker_is_killed(
    homes: HouseholdFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs_module, "_BACK_OFF", 0.01)
    homes.prepare()
    killed = homes.folder / "killed"
    # The first two workers are killed once a round is recorded.
    program = f"""
import os, pathlib, sys
sys.path[:0] = {sys.path!r}
from kit.households import HouseholdFolder, use_fit_in_rounds
killed = pathlib.Path({str(killed)!r})
def at(step):
    if step == "recorded" and killed.stat().st_size < 2:
        killed.write_text(killed.read_text() + "x")
        os.kill(os.getpid(), 9)
class Patch:
    setattr = staticmethod(setattr)
use_fit_in_rounds(Patch)
HouseholdFolder(pathlib.Path({str(homes.folder)!r})).work(at=at)
"""
    killed.write_text("")
    seen: list[str] = []

    def at(step: str) -> None:
        if step == "worker-started" and killed.stat().st_size:
            seen.extend(j["words"] for j in json_output(capsys, "jobs", homes.file)["jobs"])

    assert homes.run(worker=["-c", program], at=at)
    assert killed.read_text() == "xx"
    assert any("its worker was killed 2 times and goes on" in words for words in seen)
    assert [j["state"] for j in json_output(capsys, "jobs", homes.file)["jobs"]] == ["done"]
    # Every round is decided once: those before a kill were replayed.
    written = homes.written()
    assert written.total() == len(written) == ROUNDS + 1
    homes.public().verify()


def test_retries_are_counted_across_releasers(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.prepare().run()
    with homes.log() as log:
        (job,) = (job.id for entry in homes.entries() for job in entry.jobs)
        log.append([interruption_record(job, 1, "the worker ended with signal 9")] * 3)
    (state,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert "waiting; its worker was killed 3 times and goes on" in state["words"]
    assert not homes.run(worker=["-c", "import os; os.kill(os.getpid(), 9)"])
    (state,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert state["reason"] == "the worker ended with signal 9; 3 retries did not help"


def test_a_job_waits_since_it_was_sent_whatever_releaser_sent_it(homes: HouseholdFolder) -> None:
    def since() -> float:
        with homes.releaser() as releaser:
            releaser.run(until_idle=True)
            (job,) = releaser.context.facts.jobs.values()
            assert job.state == "waiting"
            return job.since

    before = time.time()
    homes.prepare()
    sent = since()
    assert before - 1 <= sent <= time.time()
    assert since() == sent
    with homes.log() as log:
        (job,) = (job.id for entry in homes.entries() for job in entry.jobs)
        log.append([operator_word("retry", job)])
    assert since() > sent


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
        while not (started and releaser.context.facts.jobs) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(2)  # in which it is not started again
        releaser.context.stop.set()
        thread.join(300)
        assert [job.state for job in releaser.context.facts.jobs.values()] == ["waiting"]
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
