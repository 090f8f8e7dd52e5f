"""The releaser of a deployment, and the worker that it starts beside itself."""

from __future__ import annotations

import threading

from ..deployment import Deployment
from ..events import Tell, ignore
from ..schema_source import decoder_maker
from .jobs import check_kinds
from .releaser import Releaser


def releaser_of(
    deployment: Deployment,
    tell: Tell = ignore,
    stop: threading.Event | None = None,
) -> Releaser:
    """The releaser of a study, on the logs that its file names."""
    return Releaser(
        plan=deployment.plan,
        log=deployment.log(),
        public=deployment.public(),
        snapshots=deployment.snapshots,
        partitions=deployment.run.partitions,
        file=str(deployment.path),
        worker=worker_command(deployment),
        tell=tell,
        stop=stop or threading.Event(),
        decoder=decoder_maker(deployment),
        signer=deployment.signing_key("signing"),
        signer_before=deployment.signing_key("signing_before"),
    )


def worker_command(deployment: Deployment) -> list[str] | None:
    """The interpreter's arguments for the worker that `run` starts; None where it starts none.

    Raises UserError where this installation cannot fit what the study declares.
    """
    starts_worker = deployment.run.worker
    if starts_worker is None:
        starts_worker = not deployment.run.log.startswith("kafka:")
    if not deployment.study.batches or not starts_worker:
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
