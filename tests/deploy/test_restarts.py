"""`again.sh` starts a command again as a service manager would, and stops as one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def again(script: str, *words: str, wait: str = "0.05", **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [DEPLOY / "again.sh", "sh", "-c", script, *words],
        env={"PATH": os.environ["PATH"], "AGAIN_SECONDS": wait, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("code", [0, 2, 3, 4])
def test_final_codes(code: int) -> None:
    child = again(f"echo started; exit {code}")
    assert child.communicate(timeout=120) == ("started\n", "")
    assert child.returncode == code


@pytest.mark.parametrize("how", ["exit 5", "exit 1", "kill -KILL $$"])
def test_what_another_start_may_cure(tmp_path: Path, how: str) -> None:
    seen = tmp_path / "seen"
    child = again(f"echo x >> {seen}; [ $(wc -l < {seen}) -lt 3 ] || exit 4; {how}")
    _, error = child.communicate(timeout=120)
    assert (child.returncode, seen.read_text()) == (4, "x\n" * 3)
    assert error.count("starting again\n") == 2


def test_sigterm_is_passed_on_and_its_code_is_returned() -> None:
    child = again(
        "trap 'sleep 0.3; echo ended; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=120) == ("ended\n", "")
    assert child.returncode == 0


def test_sigterm_that_comes_while_the_command_starts() -> None:
    stops_it = "trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.02; done"
    children = [again(stops_it) for _ in range(20)]
    for child in children:
        child.communicate(timeout=120)
        assert child.returncode == 0


def test_sigterm_between_two_starts() -> None:
    child = again("exit 5", wait="60")
    assert child.stderr is not None
    assert "starting again" in child.stderr.readline()
    time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 5


@pytest.mark.parametrize("code", [0, 2, 3, 4])
def test_a_final_code_waits_where_a_manager_would_start_again(tmp_path: Path, code: int) -> None:
    mark = tmp_path / "held"
    mark.touch()  # of a container before this one
    child = again(f"[ -e {mark} ] && exit 5; exit {code}", AGAIN_HOLD=str(mark))
    assert child.stderr is not None
    assert child.stderr.readline() == f"ended with code {code}; waits for a person\n"
    deadline = time.monotonic() + 120
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=120) == ("", "")
    assert child.returncode == code


def test_a_signal_before_a_final_code_waits_for_nobody(tmp_path: Path) -> None:
    script = "trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done"
    child = again(script, AGAIN_HOLD=str(tmp_path / "held"))
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=120) == ("", "")
    assert (child.returncode, (tmp_path / "held").exists()) == (0, False)


def test_its_own_lines_are_json_where_the_commands_are(tmp_path: Path) -> None:
    child = again("exit 5", "run", "--json", wait="60")
    assert child.stderr is not None
    line = json.loads(child.stderr.readline())
    time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert list(line) == ["time", "level", "event", "message"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"])
    assert (line["level"], line["event"]) == ("warning", "restarting")
    named = set(re.findall(r"tell (\w+) (\w+)", (DEPLOY / "again.sh").read_text()))
    page = (DEPLOY.parent / "docs" / "reference" / "logs.md").read_text()
    assert named == {("warning", "restarting"), ("error", "held")}
    words = " ".join(page.split())
    assert all(f"`{event}` (level `{level}`)" in words for level, event in named)
