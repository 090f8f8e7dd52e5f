"""Repetitions of plans over processes, added up.

Each repetition has its own seed, and chunks of repetitions are added in order, whatever the number
of processes: the result is the same, to the bit, for any `jobs`.
Processes are spawned, so a script that calls this with jobs above 1 needs a __main__ guard.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from stream_dp.errors import UserError

from .panels.trial import Trial, TrialPlan

CHUNK = 10
_SAFE_PATH = "PYTHONSAFEPATH"
# A plan, and what its seeds are made of: entropy, and a key that sets it apart.
Seeded = tuple[TrialPlan, tuple[int, ...], int]
_Task = tuple[int, list[int]]


def run_repetitions(
    plans: Sequence[Seeded], repetitions: int, jobs: int, progress: bool
) -> list[tuple[Trial, ...]]:
    """For each plan, the sum of its repetitions as each of its judges sees them."""
    if repetitions < 1 or jobs < 1 or any(min(entropy) < 0 for _, entropy, _ in plans):
        raise UserError("repetitions and jobs must be at least 1, and the seed at least 0")
    tasks: list[_Task] = []
    for number, (_, entropy, key) in enumerate(plans):
        seeds = [
            _seed(np.random.SeedSequence(entropy, spawn_key=(key, r))) for r in range(repetitions)
        ]
        tasks += [(number, seeds[i : i + CHUNK]) for i in range(0, repetitions, CHUNK)]
    found: dict[int, tuple[Trial, ...]] = {}
    total = repetitions * len(plans)
    with tqdm(total=total, desc="repetitions", disable=None if progress else True) as bar:
        for number, trials in _results([plan for plan, _, _ in plans], tasks, jobs):
            found[number] = _sum(found[number], trials) if number in found else trials
            bar.update(trials[0].repetitions)
    return [found[number] for number in range(len(plans))]


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seed(sequence: np.random.SeedSequence) -> int:
    return int.from_bytes(sequence.generate_state(4, np.uint64).tobytes(), "little")


def _sum(here: tuple[Trial, ...], there: tuple[Trial, ...]) -> tuple[Trial, ...]:
    return tuple(a + b for a, b in zip(here, there, strict=True))


_held: list[TrialPlan] = []


def _hold(plans: list[TrialPlan]) -> None:
    _held[:] = plans


def _chunk(task: _Task) -> tuple[int, tuple[Trial, ...]]:
    number, seeds = task
    first, *rest = seeds
    total = _held[number].run(first)
    for seed in rest:
        total = _sum(total, _held[number].run(seed))
    return number, total


def _results(
    plans: list[TrialPlan], tasks: list[_Task], jobs: int
) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Every task's sum, in the order of the tasks."""
    jobs = min(jobs, len(tasks))
    if jobs == 1:
        _hold(plans)
        try:
            yield from map(_chunk, tasks)
        finally:
            _hold([])
        return
    with _pool(plans, jobs) as pool:
        yield from pool.map(_chunk, tasks)


@contextmanager
def _pool(plans: list[TrialPlan], jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that hold the plans; an interrupt drops the work that has not begun."""
    context = multiprocessing.get_context("spawn")
    with _safe_path():
        pool = ProcessPoolExecutor(jobs, context, initializer=_hold, initargs=(plans,))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes start without the current folder, whose files may be named like Python's modules.

    Their path becomes this process's own once they run.
    """
    kept = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if kept is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = kept
