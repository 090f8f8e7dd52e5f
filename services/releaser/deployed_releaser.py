"""The releaser of a deployment, and the processes beside it."""

from __future__ import annotations

import threading

from stream_dp.errors import UserError
from stream_dp.planning.plan import Plan

from ..intake.input_decoders import decoder_maker
from ..process.events import Tell, ignore
from ..storage.deployment import Deployment
from .batch_jobs import check_kinds
from .ordered_parts import Aggregation
from .releaser import Releaser
from .releaser_facts import Context

_COMMAND = ["-m", "stream_dp.services.commands.cli"]


def releaser_of(
    deployment: Deployment,
    tell: Tell = ignore,
    stop: threading.Event | None = None,
) -> Releaser:
    """The releaser of a study, on the logs that its file names."""
    return Releaser(
        plan=Plan(deployment.study),
        log=deployment.log(),
        public=deployment.public(),
        witness=deployment.witness(),
        snapshots=deployment.snapshots,
        context=Context.of(
            deployment.study,
            tell=tell,
            stop=stop or threading.Event(),
            file=str(deployment.path),
        ),
        partitions=deployment.run.partitions,
        worker=worker_command(deployment),
        worker_retries=deployment.run.worker_retries,
        decoder=decoder_maker(deployment),
        signer=deployment.signing_key("signing"),
        signer_before=deployment.signing_key("signing_before"),
        aggregation=aggregation_of(deployment),
        estimates=deployment.run.estimates,
        estimates_schema=deployment.run.estimates_schema,
        weights=deployment.run.weights,
        register=deployment.register,
    )


def worker_command(deployment: Deployment) -> list[str] | None:
    """The interpreter's arguments for the worker that `run` starts, or None.

    Raises UserError if this installation cannot fit the declared data sets.
    """
    if not deployment.study.batches or not _starts_others(deployment):
        return None
    check_kinds(deployment.study)
    return [*_COMMAND, "worker", str(deployment.path), "--until-idle", "--attached"]


def aggregation_of(deployment: Deployment) -> Aggregation | None:
    """How periods are closed in parts; None if the releaser closes them.

    Raises UserError for a study that cannot be closed in parts.
    """
    run = deployment.run
    if run.engine == "here":
        return None
    check_engine(deployment)
    command = [*_COMMAND, "aggregate", str(deployment.path), "--attached"]
    return Aggregation(run.parts, command if _starts_others(deployment) else None, run.input.hash)


def check_engine(deployment: Deployment) -> None:
    """Raises UserError if the engine is Spark and cannot close the periods of this study."""
    run = deployment.run
    if run.engine == "spark" and not run.log.startswith("kafka:"):
        raise UserError(
            f"{deployment.path}: run.engine: 'spark' reads reports from Kafka, and run.log is a"
            " file; write 'processes'"
        )


def _starts_others(deployment: Deployment) -> bool:
    """Whether the releaser starts workers and an aggregator of its own."""
    if deployment.run.worker is not None:
        return deployment.run.worker
    return not deployment.on_cluster
