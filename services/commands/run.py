"""`stream-dp run`: the releaser, until the horizon or a signal."""

from __future__ import annotations

import argparse
import gc
import signal
import threading
from contextlib import ExitStack

from ..deployment import Deployment
from ..events import Event, tell_json
from ..options import study_file
from ..output import JOB_FAILED, Output, say
from ..releaser.setup import releaser_of
from ..releaser.succession import require_no_other


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("--until-idle", action="store_true", help="stop when nothing is left to do")
    words = "with --until-idle: even while another releaser of the study runs, which then waits"
    parser.add_argument("--take-over", action="store_true", help=words)
    words = "the logs' files were moved or restored, and NO other copy of them goes on: two would"
    words += " draw noise for the same periods, and the guarantee would be lost"
    parser.add_argument("--moved", action="store_true", help=words)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    tell = tell_json(deployment.study.name) if options.json else _say
    process = releaser_of(deployment, tell=tell, stop=stop)
    process.moved = options.moved
    # What was imported lives as long as the service: let the collector never look at it again.
    gc.freeze()
    with ExitStack() as stack:
        stack.callback(process.public.close)
        stack.callback(process.log.close)
        if options.until_idle and not options.take_over and deployment.on_cluster:
            require_no_other(process.log, str(options.study))
        for address, public in (
            (deployment.run.listen, False),
            (deployment.run.listen_public, True),
        ):
            if address is not None:
                from ..releaser.listen import listening

                stack.enter_context(listening(address, process.facts, public=public))
        done = process.run(until_idle=options.until_idle)
    failed = any(job.state == "failed" for job in process.facts.jobs.values())
    code = JOB_FAILED if failed and options.until_idle else 0
    return Output({"horizon_reached": done}, "", code)


def _say(event: Event) -> None:
    say(event.message)
