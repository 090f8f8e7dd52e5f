"""A process of the fork server ends as one of Python does: the same code, words and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kit import fork_server

SAYS = "import os, sys; print(sys.argv, os.getcwd(), os.environ['GIVEN'], sys.stdin.read())"
PROGRAMS = {
    "words": ("-c", f"{SAYS}; sys.exit(3)", "x", "y"),
    "last words": ("-c", "import sys; sys.exit('the end')"),
    "killed": ("-c", "import os; os.kill(os.getpid(), 9)"),
    "a thread": ("-c", "import threading as t; t.Timer(0.1, print, ['late']).start()"),
    "at exit": ("-c", "import atexit; atexit.register(print, 'last')"),
    "a module": ("-m", "stream_dp.services.commands.cli", "status", "none.toml"),
    "a file": ("program.py", "1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_ends_as_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("TEXT = 'beside'\n")
    program = "import sys, beside\nprint(__name__, sys.argv, beside.TEXT)\n"
    (tmp_path / "program.py").write_text(program)
    env = {**os.environ, "GIVEN": "given"}
    command = [sys.executable, *PROGRAMS[name]]
    ours = fork_server.run(*PROGRAMS[name], env=env, cwd=tmp_path)
    theirs = subprocess.run(
        command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr == theirs.stderr


def test_an_error_is_a_traceback() -> None:
    done = fork_server.run("-c", "raise ValueError(3)")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("ValueError: 3\n")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_it(how: signal.Signals) -> None:
    process = fork_server.started("-c", "print('there', flush=True); input()")
    assert process.stdout is not None
    with process.stdout:
        assert process.wait() == 1  # its standard input is empty
    process = fork_server.started("-c", "import time; print('there', flush=True); time.sleep(600)")
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "there\n"
        assert process.poll() is None
        process.send_signal(how)
        assert process.wait() == -how
        process.kill()  # of no effect
