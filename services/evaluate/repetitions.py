"""Repeats trial plans in several processes and adds up the trials.

Each repetition has its own seed, and chunks of repetitions are added in order. So the result is
the same, to the bit, for any number of processes. Processes are spawned: a script that calls this
module with more than one job needs a __main__ guard.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from stream_dp.errors import UserError

from .trial import Trial
from .trial_plans import TrialPlan

CHUNK = 10
_SAFE_PATH = "PYTHONSAFEPATH"


@dataclass(frozen=True, eq=False)
class SeededPlan:
    """A plan and the entropy for the seeds of its repetitions."""

    plan: TrialPlan
    entropy: tuple[int, ...]
    # Distinguishes the plan from other plans with the same entropy.
    key: int


@dataclass(frozen=True)
class _Chunk:
    """Repetitions of the plan at a position, by seed."""

    position: int
    seeds: list[int]


def run_repetitions(
    plans: Sequence[SeededPlan], repetitions: int, *, jobs: int | None, progress: bool
) -> list[tuple[Trial, ...]]:
    """Returns the sums of the repetitions, by plan and judge.

    jobs: processes; None for one per core.
    progress: whether to show a bar, which appears on a terminal only.

    Raises UserError for numbers that are too small.
    """
    jobs = cores() if jobs is None else jobs
    if repetitions < 1 or jobs < 1 or any(min(seeded.entropy) < 0 for seeded in plans):
        raise UserError("repetitions and jobs must be at least 1, and the seed at least 0")
    chunks: list[_Chunk] = []
    for position, seeded in enumerate(plans):
        seeds = [
            _seed(np.random.SeedSequence(seeded.entropy, spawn_key=(seeded.key, repetition)))
            for repetition in range(repetitions)
        ]
        chunks += [
            _Chunk(position, seeds[start : start + CHUNK]) for start in range(0, repetitions, CHUNK)
        ]
    sums: dict[int, tuple[Trial, ...]] = {}
    total = repetitions * len(plans)
    with tqdm(total=total, desc="repetitions", disable=None if progress else True) as bar:
        for position, trials in _results([seeded.plan for seeded in plans], chunks, jobs):
            sums[position] = _sum(sums[position], trials) if position in sums else trials
            bar.update(trials[0].repetitions)
    return [sums[position] for position in range(len(plans))]


def cores() -> int:
    """Returns the number of processor cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seed(sequence: np.random.SeedSequence) -> int:
    return int.from_bytes(sequence.generate_state(4, np.uint64).tobytes(), "little")


def _sum(earlier: tuple[Trial, ...], later: tuple[Trial, ...]) -> tuple[Trial, ...]:
    return tuple(a + b for a, b in zip(earlier, later, strict=True))


# The plans of this process, sent to it once and not with every chunk.
_process_plans: list[TrialPlan] = []


def _set_plans(plans: list[TrialPlan]) -> None:
    _process_plans[:] = plans


def _run_chunk(chunk: _Chunk) -> tuple[int, tuple[Trial, ...]]:
    plan = _process_plans[chunk.position]
    first, *rest = chunk.seeds
    total = plan.run(first)
    for seed in rest:
        total = _sum(total, plan.run(seed))
    return chunk.position, total


def _results(
    plans: list[TrialPlan], chunks: list[_Chunk], jobs: int
) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Yields the position of each chunk's plan and the sum of its repetitions, chunk by chunk."""
    jobs = min(jobs, len(chunks))
    if jobs == 1:
        _set_plans(plans)
        try:
            yield from map(_run_chunk, chunks)
        finally:
            _set_plans([])
        return
    with _pool(plans, jobs) as pool:
        yield from pool.map(_run_chunk, chunks)


@contextmanager
def _pool(plans: list[TrialPlan], jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Starts processes with the plans; an interrupt drops work before its begin."""
    context = multiprocessing.get_context("spawn")
    with _safe_path():
        pool = ProcessPoolExecutor(jobs, context, initializer=_set_plans, initargs=(plans,))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Starts processes without the current folder: files there may hide Python's modules.

    Once they run, their path becomes that of this process.
    """
    previous = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = previous
