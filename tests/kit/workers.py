"""A worker in a process of its own, which dies at a step."""

from __future__ import annotations

from pathlib import Path

from kit.households import NotedNoise, dying
from stream_dp.services.deployment import Deployment
from stream_dp.services.synthesizer.worker import Worker


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
