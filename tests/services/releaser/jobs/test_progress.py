"""The progress of a job, on a terminal and in `jobs` and `status`."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from kit.households import HouseholdFolder, use_fit_in_rounds
from kit.killed import in_memory

from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main
from stream_dp.services.commands.worker import _Bar
from stream_dp.services.process.heartbeats import new_heartbeat
from stream_dp.services.releaser.fit_transcript import LogTranscript
from stream_dp.services.releaser.job_board import JobBoard
from stream_dp.services.storage.job_records import Progress, duration, progress_record
from stream_dp.study.topics import JOB_TOPICS, TRANSCRIPTS

HALF = Progress(job="a", done=3, rounds=6, error=1.25, left=90.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0s"), (-3, "0s"), (59.2, "1m 00s"), (450, "7m 30s"), (7500, "2h 05m")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_words_leave_out_what_is_not_known() -> None:
    assert HALF.words == "round 3 of 6, error 1.25, 1m 30s left"
    assert (
        Progress(job="a", done=1, rounds=6, error=math.nan, left=math.nan).words == "round 1 of 6"
    )
    json.dumps(
        Progress(job="a", done=1, rounds=6, error=math.nan, left=math.inf).as_dict(),
        allow_nan=False,
    )


def test_what_is_reported_is_no_round(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    log.create(JOB_TOPICS)
    transcript = LogTranscript(log, "a")
    assert transcript.take_lease(new_heartbeat("worker", service=False))
    transcript.record(0, b"x")
    log.append(
        [
            progress_record(Progress(job="a", done=1, rounds=6, error=math.nan, left=math.nan)),
            progress_record(HALF),
        ]
    )
    for value in (b"{", b"[]", b'{"job":"a","done":1e999,"rounds":1,"error":null,"left":null}'):
        log.append(
            [
                Record(
                    topic=TRANSCRIPTS,
                    value=value,
                    key=None,
                    headers=(("stream-dp-progress", b""),),
                    partition=0,
                )
            ]
        )
    log.append([progress_record(Progress(job="b", done=2, rounds=2, error=1.0, left=0.0))])
    assert transcript.record(1, b"y") == b"y"
    assert LogTranscript(log, "a").rounds() == [b"x", b"y"]
    board = JobBoard(log)
    board.refresh(rounds=True)
    assert dict(board.rounds) == {"a": 2}
    assert {job: reported.progress for job, reported in board.progress.items()} == {
        "a": HALF,
        "b": Progress(job="b", done=2, rounds=2, error=1.0, left=0.0),
    }
    log.close()


def test_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with _Bar() as bar:
        bar.show(HALF)
        bar.show(Progress(job="a", done=6, rounds=6, error=1.0, left=0.0))
        bar.show(Progress(job="b", done=1, rounds=2, error=math.nan, left=math.nan))
    lines = screen.getvalue().split("\n")
    assert len(lines) == 3
    assert "#####          | a: round 3 of 6, error 1.25, 1m 30s left" in lines[0].replace("█", "#")
    assert lines[0].endswith("| a: round 6 of 6, error 1, 0s left")
    assert lines[1].endswith("| b: round 1 of 2")


def test_nothing_of_it_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with _Bar() as bar:
        bar.show(HALF)
    assert capsys.readouterr() == ("", "")


def test_jobs_and_status_say_how_far_a_job_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the age of the report, as its worker may have been killed since."""
    use_fit_in_rounds(monkeypatch)
    with in_memory() as folder:
        homes = HouseholdFolder(folder / "homes").prepare()
        homes.run()
        seen: list[str] = []

        def at(step: str) -> None:
            if step in ("recorded", "progress") and len(seen) < 3:
                assert main(["jobs", str(homes.file)]) == 0
                seen.append(capsys.readouterr().out.splitlines()[1].split(": ", 1)[1])

        homes.work(at=at)
        assert seen[:2] == [f"running, {n} rounds decided" for n in (1, 2)]
        assert seen[2].startswith("running, round 1 of 4, error 1, reported ")
        assert seen[2].endswith("s ago")
        assert main(["jobs", str(homes.file)]) == 0
        assert "running, its result is handed in" in capsys.readouterr().out
        assert main(["status", str(homes.file), "--json"]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        assert job["progress"]["done"] == job["progress"]["rounds"] == 4


def test_jax_leaves_memory_to_others() -> None:
    """Unless the environment says otherwise."""
    pytest.importorskip("jax")
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    say = f"import os, stream_dp.batch.jax_extra; print(os.environ[{name!r}])"
    outputs = []
    for more in ({}, {name: "true"}):
        environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), **more}
        done = subprocess.run(
            [sys.executable, "-P", "-c", say],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout.strip())
    assert outputs == ["false", "true"]
