"""Processes that run tasks; a task survives the death of its process.

The first processes are copies of the process that begins them, which has imported their modules and
has neither a thread nor a connection yet. Processes that replace them later begin from nothing.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from stream_dp.errors import UserError

_MOST_LOSSES = 3  # in a row, of processes while no task ends
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Stopped(Exception):
    """The process was asked to stop while tasks ran."""


class Pool:
    """Processes, begun with the first tasks or before, and reused for later tasks.

    count: the number of processes; with 1 the tasks run in this process.
    stop: while tasks run, raises Stopped once it is set.
    """

    def __init__(self, count: int, stop: threading.Event) -> None:
        self._count, self._stop = count, stop
        self._processes: ProcessPoolExecutor | None = None

    def begin(self) -> None:
        """Begins the processes as copies of this process.

        It must have neither a thread nor a connection: they would not work in a copy.
        """
        if self._count > 1:
            gc.freeze()  # imported modules stay in memory that the copies share
            self._processes = _executor(self._count, "fork")
            self._processes.submit(_nothing)  # the first task begins all of them

    def map(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Runs tasks and returns their results in order. A task whose process is killed runs again.

        Raises Stopped; UserError if processes are killed repeatedly.
        """
        results: dict[int, _Result] = {}
        losses = 0
        while len(results) < len(tasks):
            finished = len(results)
            try:
                self._run(function, tasks, results)
            except BrokenProcessPool:
                self.close()
                self._check()
                losses = 1 if len(results) > finished else losses + 1
                if losses == _MOST_LOSSES:
                    raise UserError(
                        "aggregator: its processes are killed, as where memory is short; set a"
                        " smaller run.processes, or a larger run.parts"
                    ) from None
        return [results[i] for i in range(len(tasks))]

    def _run(
        self,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        results: dict[int, _Result],
    ) -> None:
        """Runs the tasks without a result."""
        unfinished = [i for i in range(len(tasks)) if i not in results]
        if self._count == 1:
            for i in unfinished:
                self._check()
                results[i] = function(tasks[i])
            return
        if self._processes is None:
            # By now this process has threads and connections, which cannot be copied.
            self._processes = _executor(self._count, "spawn")
        futures = {self._processes.submit(function, tasks[i]): i for i in unfinished}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                self._check()
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def close(self) -> None:
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)
            self._processes = None


def _executor(count: int, method: str) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(method)
    return ProcessPoolExecutor(count, context, _end_with_parent)


def _nothing() -> None:
    pass


def _end_with_parent() -> None:
    """Ends this process when its parent ends, in whatever way.

    A terminal's interrupt is for the parent, which stops between tasks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
