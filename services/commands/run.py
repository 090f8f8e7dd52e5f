"""`stream-dp run` and `topics`: the releaser, until the horizon or a signal, and its topics."""

from __future__ import annotations

import argparse
import gc
import threading
from contextlib import ExitStack, closing

from stream_dp.study.run_settings import Input
from stream_dp.study.topics import REPORTS, topics_of

from ..process.access import Access
from ..process.command_output import JOB_FAILED, Output
from ..process.events import tell_json, tell_text
from ..process.heartbeats import stop_on_signals
from ..releaser.deployed_releaser import releaser_of
from ..releaser.recovery import make_topics
from ..releaser.releaser_role import require_no_other
from ..storage.deployment import Deployment


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    token = deployment.listen_token
    listen_access = None if token is None else Access(token)
    stop = threading.Event()
    stop_on_signals(stop)
    tell = tell_json(deployment.study.name) if options.json else tell_text
    releaser = releaser_of(deployment, tell=tell, stop=stop)
    releaser.moved, releaser.new_witness = options.moved, options.new_witness
    # What was imported lives as long as the service: let the collector never look at it again.
    gc.freeze()
    with ExitStack() as stack:
        stack.callback(releaser.public.close)
        stack.callback(releaser.log.close)
        if releaser.witness is not None:
            stack.callback(releaser.witness.close)
        if options.until_idle and not options.take_over and deployment.on_cluster:
            require_no_other(releaser.log, str(options.study))
        for address, access in (
            (deployment.run.listen, listen_access),
            (deployment.run.listen_public, None),
        ):
            if address is not None:
                from ..releaser.metrics_listeners import listening

                names = deployment.run.listen_hosts
                stack.enter_context(listening(address, releaser.context.facts, access, names))
        horizon_reached = releaser.run(until_idle=options.until_idle)
    failed = any(job.state == "failed" for job in releaser.context.facts.jobs.values())
    code = JOB_FAILED if failed and options.until_idle else 0
    return Output({"horizon_reached": horizon_reached}, "", code)


def create_topics(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    run = deployment.run
    private, public = topics_of(
        deployment.study, run.partitions, run.engine != "here", run.estimates
    )
    with closing(deployment.log()) as log, closing(deployment.public()) as published:
        existing = {*log.describe_all(private), *published.describe_all(public)}
        make_topics(log, published, (private, public), str(deployment.path))
    names = [*private, *public]
    created = [name for name in names if name not in existing]
    lines = [f"{name}: {'created' if name in created else 'exists'}" for name in names]
    notices = _notices(run.input)
    data = {"topics": names, "created": created, "notices": notices}
    return Output(data, "\n".join([*lines, *notices]))


def _notices(declared: Input) -> list[str]:
    """The settings of row senders for readable changes of rows."""
    columns = f"'{declared.person}' and '{declared.period}'"
    if declared.packed == "debezium" and declared.before == "required":
        return [
            f"{REPORTS}: updates and deletions must have {columns} of the old row; PostgreSQL"
            " writes them after ALTER TABLE ... REPLICA IDENTITY FULL. Others are rejected with"
            " the reason 'before'."
        ]
    if declared.packed == "flat" and declared.tombstones == "withdraw":
        return [
            f"{REPORTS}: the keys of records must have the columns {columns}; Debezium's have"
            " those of the primary key, or with REPLICA IDENTITY FULL those of"
            " message.key.columns. Others are rejected with the reasons 'before' and 'deleted'."
        ]
    return []
