"""Answers in forks: a fork ends in time, whatever it does, and harms no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from kit.monitors import wait_until

from stream_dp.services.monitor.forked_workers import Failed, Gone, Workers, Zygote
from stream_dp.services.monitor.forks import Work

PROGRAM = """
import os, signal, subprocess, sys, tempfile
from pathlib import Path
from stream_dp.services.monitor.forks import Work, answer_in_forks, fork_for_orders

def answer(question):
    do = question.data["do"]
    if do == "file":
        file = tempfile.TemporaryFile()
        file.write(question.body)
        file.seek(0)
        return Work({}, file=file)
    if do == "memory":
        bytearray(3 << 30)
    if do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "spin":
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        out = Path(question.data["out"])
        out.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
        out.with_suffix(".new").rename(out)
        while True:
            pass
    return Work({"said": do}, question.body)

def serve():
    print("{}", flush=True)
    answer_in_forks(answer)

fork_for_orders(serve)
"""


@pytest.fixture
def workers() -> Iterator[Workers]:
    zygote = Zygote("-c", PROGRAM)
    one = Workers(zygote)
    assert one.first_line() == {}
    yield one
    one.stop()
    zygote.stop()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def spinning(out: Path) -> list[int]:
    """The numbers of a fork that never ends and of the process that it has started."""
    wait_until(out.exists)
    return list(map(int, out.read_text().split()))


def test_a_question_is_answered_with_bytes_or_with_a_file(workers: Workers) -> None:
    async def asked() -> None:
        body = bytes(range(256)) * 1000
        answers = await asyncio.gather(
            *(workers.ask(Work({"do": str(i)}, body), 600) for i in range(20))
        )
        assert [one.data for one in answers] == [{"said": str(i)} for i in range(20)]
        assert {one.body for one in answers} == {body}
        file = (await workers.ask(Work({"do": "file"}, body), 600)).file
        assert file is not None
        with file:
            assert file.read() == body

    asyncio.run(asked())


def test_a_fork_ends_at_its_deadline_with_what_it_started(workers: Workers, tmp_path: Path) -> None:
    async def asked() -> None:
        out = tmp_path / "late"
        with pytest.raises(Failed):
            await workers.ask(Work({"do": "spin", "out": str(out)}), 5)
        pids = spinning(out)
        wait_until(lambda: not any(map(is_running, pids)))
        assert (await workers.ask(Work({"do": "next"}), 600)).data == {"said": "next"}

    asyncio.run(asked())


def test_a_fork_ends_when_nobody_waits_for_its_answer(workers: Workers, tmp_path: Path) -> None:
    async def asked() -> None:
        out = tmp_path / "left"
        task = asyncio.create_task(workers.ask(Work({"do": "spin", "out": str(out)}), 600))
        pids = await asyncio.to_thread(spinning, out)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait_until, lambda: not any(map(is_running, pids)))

    asyncio.run(asked())


@pytest.mark.parametrize("do", ["memory", "die"])
def test_a_fork_that_fails_harms_no_other(workers: Workers, do: str) -> None:
    async def asked() -> None:
        others = [asyncio.create_task(workers.ask(Work({"do": "x"}), 600)) for _ in range(5)]
        with pytest.raises(Failed):
            await workers.ask(Work({"do": do}), 600)
        assert [(await one).data for one in others] == [{"said": "x"}] * 5

    asyncio.run(asked())


def test_a_retired_process_answers_what_was_asked_and_ends(
    workers: Workers, tmp_path: Path
) -> None:
    async def asked() -> None:
        out = tmp_path / "last"
        task = asyncio.create_task(workers.ask(Work({"do": "spin", "out": str(out)}), 600))
        pids = await asyncio.to_thread(spinning, out)
        workers.retire()
        with pytest.raises(Gone):
            await workers.ask(Work({"do": "x"}), 600)
        assert workers.alive
        assert all(map(is_running, pids))
        task.cancel()
        await asyncio.to_thread(wait_until, lambda: not workers.alive)

    asyncio.run(asked())


def test_no_fork_compiles_a_template_or_maps_pandas() -> None:
    """A question would otherwise cost three times as much: nothing of a fork outlives it."""
    code = (
        "import sys; from stream_dp.services.monitor import public_program, render;"
        "public_program._load(); print(len(render._environment().cache));"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    templates = resources.files("stream_dp.services.monitor").joinpath("templates").iterdir()
    assert done.stdout.split() == [str(len([*templates])), "False"]
