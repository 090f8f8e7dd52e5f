"""A worker in a process of its own, which dies at a step."""

from __future__ import annotations

import signal
from pathlib import Path

from kit import fork_server
from kit.households import NotedNoise, dying
from stream_dp.services.releaser.worker import Worker
from stream_dp.services.storage.deployment import Deployment


def fit(file: Path, call: int) -> None:
    """Works until no job is open; prints steps and draws, and dies at that round from 0."""
    deployment = Deployment.load(file)

    def note(line: str) -> None:
        print(line, flush=True)

    log = deployment.log()
    worker = Worker(
        deployment.study,
        log,
        deployment.snapshots,
        source=NotedNoise(note),
        at=dying(call, "recorded", note),
    )
    worker.run(until_idle=True)
    assert not worker.failed
    log.close()


_WORKER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from kit.workers import fit
fit(Path({file!r}), {call})
"""


def killed_and_again(file: Path, rounds: int, before: int = 3) -> None:
    """A worker is killed when `before` rounds are recorded; the next draws only what is left."""
    tests = str(Path(__file__).parents[1])
    steps = []
    for call in (before - 1, 10**9):
        command = _WORKER.format(tests=tests, file=str(file), call=call)
        done = fork_server.run("-c", command)
        code = -signal.SIGKILL if call == before - 1 else 0
        assert done.returncode == code, (done.stdout, done.stderr)
        steps.append(done.stdout.split())
    assert [s.count("recorded") for s in steps] == [before, rounds - before]
    assert steps[1].count("draw") == rounds - before
