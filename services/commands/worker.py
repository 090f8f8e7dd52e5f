"""`stream-dp worker`: makes the data sets of batch jobs."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import ExitStack, closing, suppress
from typing import TextIO

from tqdm import tqdm

from stream_dp.log.log import Log, Missing

from ..process.command_output import JOB_FAILED, Output
from ..process.compiled_programs import keep_compiled_programs
from ..process.events import Event, tell_json
from ..process.heartbeats import Pulse, new_heartbeat
from ..process.stopping import end_with_parent, stop_on_signals
from ..releaser.worker import Worker
from ..storage import journal, restored_logs
from ..storage.deployment import Deployment
from ..storage.job_records import Progress


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if not deployment.study.batches:
        # Service managers start a worker of every study: the end is no failure.
        return Output({"stopped": False}, f"{options.study}: no data sets, so nothing to fit")
    if "://" not in deployment.snapshots_place:
        keep_compiled_programs(deployment.base / deployment.snapshots_place)
    stop = threading.Event()
    stop_on_signals(stop)
    with ExitStack() as stack:
        if options.attached:
            end_with_parent()
        # A releaser reads what an attached worker says on standard error.
        bar = stack.enter_context(_Bar(sys.stdout if options.attached else sys.stderr))
        log = stack.enter_context(closing(deployment.log()))
        if not options.attached:
            _check_original(deployment, log)
        beat = new_heartbeat("worker", service=not options.until_idle)
        process = Worker(deployment.study, log, deployment.snapshots, beat=beat, stop=stop)
        if not options.attached:
            process.retries = deployment.run.worker_retries
            process.tell = tell_json(deployment.study.name) if options.json else bar.tell
        process.on_progress = bar.show
        with Pulse(log.append, beat):
            process.run(until_idle=options.until_idle)
    # A releaser beside it reads of failures in the topics.
    failed = process.failed and options.until_idle and not options.attached
    return Output({"stopped": stop.is_set()}, "", JOB_FAILED if failed else 0)


def _check_original(deployment: Deployment, log: Log) -> None:
    """Raises Inconsistent for a copied log: the original's worker draws the same rounds."""
    with suppress(Missing):
        if log.file_identity:
            entries = journal.read_heads(log)
            if entries:
                restored_logs.check_identity(entries, log, str(deployment.path))


class _Bar:
    """One line on a terminal: the job at hand, its round, its error, the time left."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._bar: tqdm[object] | None = None
        self._job = ""

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def tell(self, event: Event) -> None:
        with tqdm.external_write_mode():
            print(event.message, flush=True)

    def show(self, progress: Progress) -> None:
        """Shows the progress of a job, with a new bar per job."""
        if self._bar is None or progress.job != self._job:
            self.__exit__()
            # The worker's own guess of the time left: the first rounds also compile programs.
            bar_format = "|{bar:20}| {desc}"
            settings: dict[str, object] = {
                "bar_format": bar_format,
                "disable": None,
                "file": self._file,
            }
            self._bar = tqdm(total=progress.rounds, desc=progress.job, **settings)
            self._job = progress.job
        self._bar.n = progress.done
        self._bar.set_description_str(f"{progress.job}: {progress.words}")
        if progress.done == progress.rounds:
            self.__exit__()
