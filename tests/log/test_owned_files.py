"""A role ends with the process that has it: whatever it started, the next owner may begin."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from contents import sent, values

from stream_dp.log import owned_files
from stream_dp.log.log import Busy, Fenced
from stream_dp.log.sqlite import SqliteLog

# An owner that starts a child and is killed by it. The child stays until its input ends.
OWNER = """
import ctypes, multiprocessing, os, signal, subprocess, sys
from pathlib import Path
from stream_dp.log.sqlite import SqliteLog

def stay():
    os.kill(os.getppid(), signal.SIGKILL)
    os.write(1, b"alone\\n")
    os.read(0, 1)
    os._exit(0)

STAY = "import os; os.kill(os.getppid(), 9); os.write(1, b'alone\\\\n'); os.read(0, 1)"

def begin(kind):
    if kind == "fork":
        os.fork() or stay()
    elif kind == "fork of another library":
        ctypes.CDLL(None).fork() or stay()
    elif kind == "pool":
        multiprocessing.get_context("fork").Process(target=stay).start()
    elif kind == "before exec":
        subprocess.Popen(["true"], preexec_fn=stay)
    elif kind == "after exec":
        subprocess.Popen([sys.executable, "-c", STAY], close_fds=False)

with SqliteLog(Path(sys.argv[1])).own("releaser"):
    begin(sys.argv[2])
    signal.pause()
"""
KINDS = ("fork", "fork of another library", "pool", "before exec", "after exec")


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(owned_files, "PATIENCE", 0.0)


def owner(log_file, kind):
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(log_file), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_does_not_keep_the_role_of_a_parent_that_was_killed(
    tmp_path, log, kind, no_waiting
):
    log.create({"t": 1})
    with owner(tmp_path / "log.db", kind) as first:
        assert first.stdout.readline() == b"alone\n"
        assert first.wait() == -signal.SIGKILL
        with log.own("releaser") as writer:
            writer.commit(sent("t", b"the next one's"))
        first.stdin.close()
    assert values(log, "t") == [b"the next one's"]


def test_a_child_that_ends_does_not_end_the_role_of_its_parent(tmp_path, log, no_waiting):
    log.create({"t": 1})
    with log.own("releaser") as writer:
        if (child := os.fork()) == 0:
            try:
                with pytest.raises(Fenced):
                    writer.commit(sent("t", b"the child's"))
                with pytest.raises(Busy):
                    log.own("releaser").__enter__()
            finally:
                os.closerange(3, 1024)
                os._exit(int(sys.exc_info()[0] is not None))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        code = """
import sys
from pathlib import Path
from stream_dp.log import owned_files
from stream_dp.log.log import Busy
from stream_dp.log.sqlite import SqliteLog
owned_files.PATIENCE = 0.0
try:
    SqliteLog(Path(sys.argv[1])).own("releaser").__enter__()
except Busy:
    print("busy")
"""
        command = [sys.executable, "-c", code, str(tmp_path / "log.db")]
        assert subprocess.run(command, stdout=subprocess.PIPE).stdout == b"busy\n"
        writer.commit(sent("t", b"the parent's"))
    assert values(log, "t") == [b"the parent's"]


def test_the_next_owner_waits_for_one_that_is_ending(tmp_path, log, monkeypatch):
    log.create({"t": 1})
    code = OWNER.replace("begin(sys.argv[2])", "os.write(1, b'owned\\n')")
    command = [sys.executable, "-c", code, str(tmp_path / "log.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"owned\n"
            monkeypatch.setattr(owned_files, "sleep", lambda _: first.kill() or first.wait())
            with log.own("releaser") as writer:
                writer.commit(sent("t", b"the next one's"))
            assert first.returncode == -signal.SIGKILL
        finally:
            first.kill()
    assert values(log, "t") == [b"the next one's"]


def test_an_owner_in_the_same_process_is_not_waited_for(log, tmp_path, monkeypatch):
    monkeypatch.setattr(owned_files, "sleep", lambda _: pytest.fail("it waits"))
    second = SqliteLog(tmp_path / "log.db")
    with log.own("releaser"):
        refused = []

        def take():
            with pytest.raises(Busy, match="another process is its releaser; stop that one first"):
                second.own("releaser").__enter__()
            refused.append(True)

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        assert refused
    with second.own("releaser"):
        pass
    second.close()


def test_a_lock_that_another_owner_had_meanwhile_is_over(tmp_path, log):
    """Closing any descriptor of the file drops a record lock: the owner sees who came since."""
    log.create({"t": 1})
    with log.own("releaser") as writer:
        (tmp_path / "log.db.releaser.lock").read_bytes()
        code = "import sys\nfrom pathlib import Path\nfrom stream_dp.log.sqlite import SqliteLog\n"
        code += "with SqliteLog(Path(sys.argv[1])).own('releaser'): pass\n"
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "log.db")], check=True)
        with pytest.raises(Fenced):
            writer.commit(sent("t", b"late"))
    assert values(log, "t") == []
