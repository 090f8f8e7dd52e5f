"""`stream-dp aggregate`: closes periods in parts, in several processes or with Spark."""

from __future__ import annotations

import argparse
import os
import threading
from contextlib import ExitStack, closing, suppress

from stream_dp.errors import UserError
from stream_dp.log.log import Log, Missing

from ..commands.options import study_file
from ..process.events import tell_json, tell_text
from ..process.heartbeats import Pulse, new_heartbeat
from ..process.output import Output
from ..process.stopping import end_with_parent, stop_on_signals
from ..releaser import journal, journal_checks
from ..releaser.setup import check_engine
from ..storage import restored_logs
from ..storage.deployment import Deployment
from .aggregator import Aggregator
from .engines import Processes
from .spark_engine import Spark
from .spark_session import close_session, open_session


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("--until-idle", action="store_true", help="stop when no order is open")
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.run.engine == "here":
        raise UserError(
            f"{options.study}: run.engine = 'here' closes periods in the releaser, so there is"
            " nothing to do; write engine = 'processes' or 'spark' to close them in parts"
        )
    stop = threading.Event()
    with ExitStack() as stack:
        processes = _processes(deployment, stop, stack)
        stop_on_signals(stop)
        if options.attached:
            end_with_parent()
        log = stack.enter_context(closing(deployment.log()))
        study = deployment.study
        with suppress(Missing):
            entries = journal.read_heads(log)
            if entries:
                study = journal_checks.first_declared(entries[0], deployment.study)
                restored_logs.check_identity(entries, log, str(deployment.path))
        process = Aggregator(
            deployment.path,
            study,
            log,
            deployment.snapshots,
            processes or _spark(deployment, log, stop, stack),
            tell=tell_json(study.name) if options.json else tell_text,
            stop=stop,
        )
        beat = new_heartbeat("aggregator", service=not options.until_idle)
        with Pulse(log.append, beat):
            process.run(until_idle=options.until_idle)
    return Output({"stopped": stop.is_set()}, "")


def _processes(deployment: Deployment, stop: threading.Event, stack: ExitStack) -> Processes | None:
    """Starts the engine `processes` while this process has neither a thread nor a connection."""
    if deployment.run.engine != "processes":
        return None
    engine = Processes(_at_once(deployment), stop=stop)
    engine.begin()
    stack.callback(engine.close)
    return engine


def _spark(deployment: Deployment, log: Log, stop: threading.Event, stack: ExitStack) -> Spark:
    """Opens the engine `spark`. Raises UserError."""
    check_engine(deployment)
    session = open_session(_at_once(deployment))
    stack.callback(close_session, session)
    stop_on_signals(stop)  # Spark has taken one of them
    return Spark(session, log, stop=stop)


def _at_once(deployment: Deployment) -> int:
    return deployment.run.processes or len(os.sched_getaffinity(0))
