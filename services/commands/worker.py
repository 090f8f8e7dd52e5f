"""`stream-dp worker`: makes the data sets of batch jobs.

JAX keeps compiled programs in a folder, so that a later worker need not compile them. The shapes of
programs follow from noisy counts, so the folder lies on the confidential side. JAX ignores a
program that cannot be read, and compiles it: several workers may share the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import tempfile
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from stream_dp.log.log import Log, Missing
from stream_dp.log.owned_files import make_folder

from ..process.command_output import JOB_FAILED, Output
from ..process.events import Event, tell_json
from ..process.heartbeats import Pulse, end_with_parent, new_heartbeat, stop_on_signals
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


_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_MOST = 256 << 20  # bytes


def keep_compiled_programs(folder: Path, most: int = _MOST) -> None:
    """Lets JAX, which must not be imported yet, keep its programs in `folder`.

    A kind of processor has a folder of its own there, because programs hold its instructions.
    The programs that were written first are removed as soon as all take more than `most` bytes.
    Without a folder that can be written JAX keeps no programs. A folder that the environment names
    stays.
    """
    if _FOLDER in os.environ:
        return
    place = folder / f"compiled-{_processor()}"
    try:
        make_folder(place)
        with tempfile.TemporaryFile(dir=place):
            pass
        _remove_oldest(place, most)
    except OSError:
        return
    os.environ[_FOLDER] = str(place.absolute())
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _processor() -> str:
    """A hash of the processor's kind and instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    kept = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    words = "\n".join([platform.machine(), platform.processor(), *sorted(kept)])
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _remove_oldest(folder: Path, most: int) -> None:
    """Removes files until the others take at most `most` bytes."""
    stats = list[tuple[os.stat_result, Path]]()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another worker removes as well
            if path.is_file():
                stats.append((path.stat(), path))
    total = sum(stat.st_size for stat, _ in stats)
    for stat, path in sorted(stats, key=lambda pair: (pair[0].st_mtime, pair[1])):
        if total <= most:
            return
        path.unlink(missing_ok=True)
        total -= stat.st_size
