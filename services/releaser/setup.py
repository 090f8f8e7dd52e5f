"""The releaser of a deployment, and the worker that it starts beside itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..deployment import Deployment
from .jobs import check_kinds
from .releaser import Releaser


def releaser_of(
    deployment: Deployment,
    tell: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
) -> Releaser:
    """The releaser of a study, on the logs that its file names."""
    return Releaser(
        deployment.plan,
        deployment.log(),
        deployment.public(),
        deployment.snapshots,
        deployment.run.partitions,
        str(deployment.path),
        worker_command(deployment),
        tell=tell,
        stop=stop or threading.Event(),
    )


def worker_command(deployment: Deployment) -> list[str] | None:
    """Of the worker that `run` starts beside itself; None where others work.

    Raises UserError where this installation cannot fit what the study declares.
    """
    beside = deployment.run.worker
    if beside is None:
        beside = not deployment.run.log.startswith("kafka:")
    if not deployment.study.batches or not beside:
        return None
    check_kinds(deployment.study)
    return [
        "-m",
        "stream_dp.services.cli",
        "worker",
        str(deployment.path),
        "--until-idle",
        "--attached",
    ]
