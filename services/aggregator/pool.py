"""Several processes that run tasks, and lose none when one of them is killed."""

from __future__ import annotations

import multiprocessing
import os
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
    """Processes that are begun when tasks come, and go on for the next ones.

    count: how many; with 1 the tasks run in this process.
    stop: while tasks run, raises Stopped once it is set.
    """

    def __init__(self, count: int, stop: threading.Event) -> None:
        self._count, self._stop = count, stop
        self._processes: ProcessPoolExecutor | None = None

    def map(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """The results in the order of the tasks. A task whose process is killed runs again.

        Raises Stopped; UserError where processes are killed again and again.
        """
        results: dict[int, _Result] = {}
        losses = 0
        while len(results) < len(tasks):
            before = len(results)
            try:
                self._run(function, tasks, results)
            except BrokenProcessPool:
                self.close()
                losses = 1 if len(results) > before else losses + 1
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
        """Runs the tasks that have no result yet."""
        left = [i for i in range(len(tasks)) if i not in results]
        if self._count == 1:
            for i in left:
                self._check()
                results[i] = function(tasks[i])
            return
        if self._processes is None:
            # A process of its own from the start: threads and connections are not copied.
            spawning = multiprocessing.get_context("spawn")
            self._processes = ProcessPoolExecutor(self._count, spawning, _end_with_parent)
        futures = {self._processes.submit(function, tasks[i]): i for i in left}
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


def _end_with_parent() -> None:
    """Ends this process when the one that began it ends, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
