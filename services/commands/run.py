"""`stream-dp run`: the releaser, until the horizon or a signal."""

from __future__ import annotations

import argparse
import gc
import threading
from contextlib import ExitStack

from ..process.access import Access
from ..process.command_output import JOB_FAILED, Output
from ..process.events import tell_json, tell_text
from ..process.heartbeats import stop_on_signals
from ..releaser.deployed_releaser import releaser_of
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
