"""Repeat the declared mechanisms of a study on a known panel: errors against theory.

For trials on simulated or past data. Noise comes from seeded generators, so nothing that this
prints is private, and everything that it prints is CONFIDENTIAL where the panel is real.

Each repetition has its own seed, and chunks of repetitions are added in order, whatever the number
of processes: the result is the same, to the bit, for any `jobs`.
Processes are spawned, so a script that calls this with jobs above 1 needs a __main__ guard.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ..continual import Cumulative, FixedWindow, mechanism
from ..errors import UserError
from ..panel import Symbols
from ..study import Cumulative as DeclaredCumulative
from ..study import Release, Study
from .report import Cells, Errors, Evaluation, Line
from .table import WARNING, plain_table
from .trial import Plan, Trial, cumulative_plan, window_plan

Truth = Mapping[str, Symbols]
CHUNK = 10


def evaluate(
    study: Study,
    truth: Truth,
    repetitions: int,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
) -> Evaluation:
    """Errors of every release of the study over `repetitions` runs with simulated noise.

    truth: for each attribute that a release uses, the (n, T) symbol codes with the missing rule
    applied. jobs: processes, None for one per core, 1 for none. progress: a bar, on a terminal
    only. Raises UserError for a panel that does not fit the study.
    """
    return _evaluations([(study, (seed,))], truth, repetitions, seed, jobs, progress)[0]


@dataclass(frozen=True)
class Sweep:
    """The same study at several multiples of its rhos; confidential like each evaluation."""

    scales: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    confidential: bool = True

    def as_dict(self) -> dict[str, Any]:
        pairs = zip(self.scales, self.evaluations, strict=True)
        points = [{"scale": scale, "evaluation": e.as_dict()} for scale, e in pairs]
        return {"confidential": True, "warning": WARNING, "points": points}

    def table(self) -> str:
        head = ["release", "rho", "theory", "raw RMSE", "panel RMSE", "undebiased RMSE"]
        grid = []
        for same in zip(*(evaluation.releases for evaluation in self.evaluations), strict=True):
            for errors in same:
                held = {c.answer: f"{c.rmse:.1f}" for c in errors.cells}
                line = [errors.release, f"{float(Fraction(errors.rho)):g}"]
                line += [f"{errors.cells[0].theory:.1f}", held["raw"], held["panel"]]
                grid.append([*line, held.get("undebiased", "-")])
        return f"{WARNING}\nRMSE over all cells, in people\n\n{plain_table(head, grid)}"


def sweep(
    study: Study,
    truth: Truth,
    scales: Sequence[float | str | Fraction],
    repetitions: int,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
) -> Sweep:
    """`evaluate` with every rho of the study multiplied by each scale, noise drawn afresh."""
    exact = [Fraction(str(scale)) for scale in scales]
    if not exact or min(exact) <= 0:
        raise UserError("scales: give at least one, each above 0")
    asked = [(scaled(study, scale), (seed, i)) for i, scale in enumerate(exact)]
    found = _evaluations(asked, truth, repetitions, seed, jobs, progress)
    return Sweep(tuple(str(scale) for scale in exact), tuple(found))


def scaled(study: Study, scale: Fraction) -> Study:
    """The study with every rho, the total's too, multiplied by `scale`."""
    releases = tuple(r.model_copy(update={"rho": r.rho * scale}) for r in study.releases)
    fields = {name: getattr(study, name) for name in Study.model_fields}
    return Study(**{**fields, "rho": study.rho * scale, "releases": releases})


def _evaluations(
    asked: Sequence[tuple[Study, tuple[int, ...]]],
    truth: Truth,
    repetitions: int,
    seed: int,
    jobs: int | None,
    progress: bool,
) -> list[Evaluation]:
    """One evaluation for each study and entropy, all over one pool of processes."""
    if repetitions < 1 or seed < 0 or (jobs is not None and jobs < 1):
        raise UserError("repetitions and jobs must be at least 1, and the seed at least 0")
    people = _check(asked[0][0], truth)
    plans: list[Plan] = []
    tasks: list[_Task] = []
    for study, entropy in asked:
        for place, release in enumerate(study.releases):
            sequences = [
                np.random.SeedSequence(entropy, spawn_key=(place, r)) for r in range(repetitions)
            ]
            seeds = [_seed(sequence) for sequence in sequences]
            chunks = [seeds[i : i + CHUNK] for i in range(0, repetitions, CHUNK)]
            tasks += [(len(plans), chunk) for chunk in chunks]
            plans.append(_plan(study, release, truth))
    finished = zip(plans, _sums(plans, tasks, jobs or _cores(), progress), strict=True)
    return [
        Evaluation(
            study=study.name,
            study_hash=study.hash,
            unit=study.unit,
            neighbours=study.neighbours,
            rho=str(study.rho),
            people=people,
            periods=study.periods.labels,
            repetitions=repetitions,
            seed=seed,
            releases=tuple(_errors(release, *next(finished)) for release in study.releases),
        )
        for study, _ in asked
    ]


def _check(study: Study, truth: Truth) -> int:
    """The number of people. Raises UserError where the panel does not fit the study."""
    problems = []
    used = {n for r in study.releases for n in (*r.attributes, *(r.where or {}))}
    for name in sorted(used):
        if name not in truth:
            problems.append(f"truth: attribute '{name}' is missing")
            continue
        symbols, periods = truth[name], study.periods.count
        if symbols.ndim != 2 or symbols.shape[1] != periods or symbols.shape[0] == 0:
            problems.append(
                f"truth: attribute '{name}' must have a row a person, {periods} columns"
            )
        elif symbols.max() >= len(study.attributes[name].symbols):
            problems.append(f"truth: attribute '{name}' has a code that is none of its symbols")
    sizes = {truth[name].shape[0] for name in used if name in truth}
    if len(sizes) > 1:
        problems.append("truth: the attributes have different numbers of people")
    elif sizes and study.size is not None and sizes != {study.size}:
        problems.append(
            f"truth: the study declares {study.size} people, the panel has {max(sizes)}"
        )
    if problems:
        raise UserError(problems)
    return int(max(sizes))


def _plan(study: Study, release: Release, truth: Truth) -> Plan:
    made, symbols = mechanism(study, release), seen(study, release, truth)
    if isinstance(release, DeclaredCumulative) and isinstance(made, Cumulative):
        return cumulative_plan(made, study.event_codes(release), symbols)
    if isinstance(made, FixedWindow):
        alphabet = study.alphabet(release)
        named = len(alphabet.values) - (1 if alphabet.absent is None else 2)
        return window_plan(made, alphabet.name, named, symbols)
    raise UserError(f"release '{release.name}': evaluations of its kind are not supported")


def seen(study: Study, release: Release, truth: Truth) -> Symbols:
    """What a release sees of a true panel: codes in its alphabet, (people, its periods)."""
    alphabet = study.alphabet(release)
    codes: NDArray[np.uint8] = np.zeros(1, np.uint8)
    for name, part in zip(alphabet.attributes, alphabet.parts, strict=True):
        codes = (codes * np.uint8(len(part)) + truth[name]).astype(np.uint8)
    for name, value in (release.where or {}).items():
        assert alphabet.absent is not None
        inside = truth[name] == study.attributes[name].codes[value]
        codes = np.where(inside, codes, np.uint8(alphabet.absent))
    first, last = study.span(release)
    return codes[:, first - 1 : last]


def _seed(sequence: np.random.SeedSequence) -> int:
    return int.from_bytes(sequence.generate_state(4, np.uint64).tobytes(), "little")


_Task = tuple[int, list[int]]
_held: list[Plan] = []


def _hold(plans: list[Plan]) -> None:
    _held[:] = plans


def _chunk(task: _Task) -> tuple[int, Trial]:
    number, seeds = task
    first, *rest = seeds
    total = _held[number].run(first)
    for seed in rest:
        total = total + _held[number].run(seed)
    return number, total


def _cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sums(plans: list[Plan], tasks: list[_Task], jobs: int, progress: bool) -> list[Trial]:
    """The repetitions of each plan added up, in the order of the tasks."""
    found: dict[int, Trial] = {}
    total = sum(len(seeds) for _, seeds in tasks)
    with tqdm(total=total, desc="repetitions", disable=None if progress else True) as bar:
        for number, trial in _results(plans, tasks, jobs):
            found[number] = found[number] + trial if number in found else trial
            bar.update(trial.repetitions)
    return [found[number] for number in range(len(plans))]


def _results(plans: list[Plan], tasks: list[_Task], jobs: int) -> Iterator[tuple[int, Trial]]:
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
def _pool(plans: list[Plan], jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that hold the plans; an interrupt drops the work that has not begun."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_hold, initargs=(plans,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _errors(release: Release, plan: Plan, done: Trial) -> Errors:
    made, n = plan.mechanism, done.repetitions
    window = made if isinstance(made, FixedWindow) else None
    cells = tuple(
        Cells(
            answer=answer,
            number=plan.cells,
            rmse=float(np.sqrt(done.cell_squares[a] / (n * plan.cells))),
            worst=float(done.cell_worst[:, a].max()),
            theory=plan.cell_theory,
            within=float((done.cell_worst[:, a] <= made.error_bound).mean()),
        )
        for a, answer in enumerate(plan.answers)
    )
    return Errors(
        release=release.name,
        kind=release.kind,
        attribute="&".join(release.attributes),
        width=window.width if window else None,
        rho=str(release.rho),
        padding=window.padding if window else None,
        bound=float(made.error_bound),
        failure=float(made.failure),
        repaired=done.repaired / n,
        cells=cells,
        lines=tuple(_lines(plan, done)),
    )


def _lines(plan: Plan, done: Trial) -> Iterator[Line]:
    """Each query's answers, in the periods in which they are given."""
    truth, theory, n = plan.truth, plan.theory, done.repetitions
    for number, (text, kind, width) in enumerate(plan.labels):
        for a, answer in enumerate(plan.answers):
            bias = done.total[a, number] / n
            given = np.flatnonzero(~np.isnan(bias))
            if given.size == 0:
                continue
            known = not np.isnan(theory[number, given]).any()
            yield Line(
                query=text,
                kind=kind,
                width=width,
                answer=answer,
                periods=tuple(int(p) + plan.first for p in given),
                truth=_floats(truth[number, given]),
                mean=_floats((truth[number] + bias)[given]),
                rmse=_floats(np.sqrt(done.squares[a, number] / n)[given]),
                worst=_floats(done.worst[a, number, given]),
                theory=_floats(theory[number, given]) if known else None,
            )


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
