"""Processes that are begun early are copies; those that are killed are replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_copies_work_are_replaced_and_end_with_the_one_that_began_them(
    how: signal.Signals | None, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "kit.pooled", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "[(1, 7), (4, 7)]\n"  # with what was there before
        assert process.stdout.readline() == "[1, 4, 9, 16]\n"
        assert (tmp_path / "died").exists()
        begun = {int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()}
        assert process.pid not in begun
        if how is None:
            process.stdin.write("\n")
            process.stdin.close()
        else:
            os.kill(process.pid, how)
        assert process.wait(600) == (0 if how is None else -how)
    deadline = time.monotonic() + 600
    while any(map(alive, begun)):
        assert time.monotonic() < deadline, begun
        time.sleep(0.01)
