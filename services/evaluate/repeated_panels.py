"""Repeats the declared mechanisms of a study on a known panel: errors against theory.

For trials on simulated or past data. Noise comes from seeded generators, so no result is private,
and every result is CONFIDENTIAL if the panel is real.

A release's plan has its mechanism, its true counts and its judges. A judge compares a class of
answers with the truth (`panel_judge.py`): of patterns, or of totals; a joint release has both.

Each repetition has its own seed, and chunks of repetitions are added in order. So the result is
the same, to the bit, for any number of processes. Processes are spawned: a script that calls this
module with more than one job needs a __main__ guard.
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

from stream_dp.continual.cumulative.cumulative import total_increments
from stream_dp.continual.mechanism_interface import Mechanism, Step
from stream_dp.continual.mechanisms import AnyMechanism, mechanism, patterns_part, totals_part
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import UserError
from stream_dp.panel import Symbols
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Release, Study

from .panel_judge import PatternsJudge, TotalsJudge, patterns_judge, totals_judge
from .panel_report import CellErrors, Evaluation, QueryErrors, ReleaseErrors, Sweep
from .trial import Ints, Trial

# By attribute, the symbol codes of a known panel with the missing rule applied, (people, T).
Truth = Mapping[str, Symbols]
PanelJudge = PatternsJudge | TotalsJudge


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """The common parts of all repetitions of a release."""

    mechanism: Mechanism[Any]
    # The input of the mechanism at every period, from the first.
    counts: tuple[Ints, ...]
    judges: tuple[PanelJudge, ...]

    def simulated_steps(self, seed: int) -> list[tuple[int, Step]]:
        """Steps the mechanism with simulated noise. Returns the steps with their periods."""
        source, state = SeededNoise(seed), self.mechanism.init()
        steps = []
        for t, counts in enumerate(self.counts, 1):
            state, step = self.mechanism.step(state, counts, source.draw(self.mechanism.demand(t)))
            if step is not None:
                steps.append((t, step))
        return steps

    def run(self, seed: int) -> tuple[Trial, ...]:
        """Runs a repetition. Returns the trial of every judge."""
        steps = self.simulated_steps(seed)
        return tuple(judge.judge(steps) for judge in self.judges)


def count_people(study: Study, truth: Truth) -> int:
    """Counts the people of a panel. Raises UserError if the panel does not fit the study."""
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


def visible_symbols(study: Study, release: Release, truth: Truth) -> Symbols:
    """Encodes a known panel for a release: codes in its alphabet, (people, its periods)."""
    alphabet = study.alphabet(release)
    codes: NDArray[np.uint8] = np.zeros(1, np.uint8)
    for name, values in zip(alphabet.attributes, alphabet.symbols, strict=True):
        codes = (codes * np.uint8(len(values)) + truth[name]).astype(np.uint8)
    for name, value in (release.where or {}).items():
        assert alphabet.absent is not None
        inside = truth[name] == study.attributes[name].codes[value]
        codes = np.where(inside, codes, np.uint8(alphabet.absent))
    first, last = study.span(release)
    return codes[:, first - 1 : last]


def named_symbol(study: Study, release: Release) -> int:
    """Returns the symbol of the named queries: the last answer of the alphabet."""
    alphabet = study.alphabet(release)
    return len(alphabet.values) - (1 if alphabet.absent is None else 2)


def is_open(release: Release, absent: int | None) -> bool:
    """Tells whether the population is open: permanent absence is not judged."""
    return absent is not None and release.rows is not None


def trial_plan(
    study: Study,
    release: Release,
    symbols: Symbols,
    *,
    wide: bool = True,
    leave_out_absent: bool | None = None,
    override: AnyMechanism | None = None,
) -> TrialPlan:
    """Makes the trial plan of a release.

    symbols: the result of `visible_symbols`.
    wide: whether queries wider than the window are asked as well.
    leave_out_absent: whether the pattern of absences is not judged; None: left out in an open
        population.
    override: the mechanism; None for the declared mechanism of the release.
    """
    simulated, alphabet = override or mechanism(study, release), study.alphabet(release)
    if leave_out_absent is None:
        leave_out_absent = is_open(release, alphabet.absent)

    def window_judge(window: FixedWindow, suffix: str = "") -> PatternsJudge:
        return patterns_judge(
            window,
            symbols,
            attribute=alphabet.name,
            code=named_symbol(study, release),
            absent=alphabet.absent if leave_out_absent else None,
            wide=wide,
            suffix=suffix,
        )

    window, totals = patterns_part(simulated), totals_part(simulated)
    if totals is None:
        assert window is not None
        judge = window_judge(window)
        return TrialPlan(simulated, _window_counts(judge, symbols), (judge,))
    assert release.totals is not None
    events, q = study.event_codes(release.totals), len(alphabet.values)
    increments = total_increments(symbols, events, alphabet.absent)
    if window is None:
        sums = totals_judge(totals, symbols, events=events, q=q)
        return TrialPlan(simulated, increments, (sums,))
    patterns = window_judge(window, suffix=" patterns")
    sums = totals_judge(
        totals,
        symbols,
        events=events,
        q=q,
        own_panel=False,
        skip=window.measured.size,
        suffix=" totals",
    )
    counts = tuple(map(np.append, _window_counts(patterns, symbols), increments))
    return TrialPlan(simulated, counts, (patterns, sums))


def _window_counts(judge: PatternsJudge, symbols: Symbols) -> tuple[Ints, ...]:
    """Returns the input of a window mechanism at every period."""
    mechanism = judge.mechanism
    return tuple(mechanism.counts(symbols, t) for t in range(1, mechanism.horizon + 1))


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
    """The position of a chunk's plan, and the sum of its repetitions."""
    plan = _process_plans[chunk.position]
    first, *rest = chunk.seeds
    total = plan.run(first)
    for seed in rest:
        total = _sum(total, plan.run(seed))
    return chunk.position, total


def _results(
    plans: list[TrialPlan], chunks: list[_Chunk], jobs: int
) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Yields the position of every chunk's plan and the sum of its repetitions, chunk by chunk."""
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


def evaluate_panels(
    study: Study,
    truth: Truth,
    repetitions: int,
    *,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
) -> Evaluation:
    """Measures the errors of every release of the study over `repetitions` simulated runs.

    truth: for each attribute that a release uses, the (n, T) symbol codes with the missing rule
        applied.
    repetitions: runs of each mechanism.
    seed: of the simulated noise.
    jobs: processes; None for one per core, 1 for none beside this process.
    progress: whether to show a bar, which appears on a terminal only.

    Raises UserError for a panel that does not fit the study.
    """
    (evaluation,) = _evaluations(
        [(study, (seed,))], truth, repetitions, seed=seed, jobs=jobs, progress=progress
    )
    return evaluation


def sweep(
    study: Study,
    truth: Truth,
    scales: Sequence[float | str | Fraction],
    repetitions: int,
    *,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Runs `evaluate_panels` with every rho multiplied by every scale and independent noise.

    The other parameters are those of `evaluate_panels`.
    """
    exact = [Fraction(str(scale)) for scale in scales]
    if not exact or min(exact) <= 0:
        raise UserError("scales: give at least one, each above 0")
    studies = [(scaled(study, scale), (seed, i)) for i, scale in enumerate(exact)]
    evaluations = _evaluations(studies, truth, repetitions, seed=seed, jobs=jobs, progress=progress)
    return Sweep(tuple(str(scale) for scale in exact), tuple(evaluations))


def scaled(study: Study, scale: Fraction) -> Study:
    """Multiplies every rho of a study, the total's too, by `scale`."""
    releases = tuple(r.model_copy(update={"rho": r.rho * scale}) for r in study.releases)
    return study.revised(rho=study.rho * scale, releases=releases)


def _evaluations(
    studies: Sequence[tuple[Study, tuple[int, ...]]],
    truth: Truth,
    repetitions: int,
    *,
    seed: int,
    jobs: int | None,
    progress: bool,
) -> list[Evaluation]:
    """Evaluates all studies with the same pool of processes.

    studies: each with the entropy of its noise.
    """
    people = count_people(studies[0][0], truth)
    plans = [
        SeededPlan(trial_plan(study, release, visible_symbols(study, release, truth)), entropy, key)
        for study, entropy in studies
        for key, release in enumerate(study.releases)
    ]
    trials_by_plan = run_repetitions(plans, repetitions, jobs=jobs, progress=progress)
    results = zip(plans, trials_by_plan, strict=True)
    evaluations = []
    for study, _ in studies:
        releases: list[ReleaseErrors] = []
        for release in study.releases:
            seeded, trials = next(results)
            judged = zip(seeded.plan.judges, trials, strict=True)
            releases += [release_errors(release, judge, trial) for judge, trial in judged]
        evaluations.append(
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
                releases=tuple(releases),
            )
        )
    return evaluations


def release_errors(release: Release, judge: PanelJudge, trial: Trial) -> ReleaseErrors:
    """Computes the errors of a release from a judge's sums over all repetitions."""
    n = trial.repetitions
    cells = tuple(
        CellErrors(
            answer=answer,
            number=int(trial.cells[a]),
            rmse=float(np.sqrt(trial.cell_squares[a] / (n * trial.cells[a]))),
            chance=_chance(trial.cell_squares[a], trial.cell_fourths[a], n),
            worst=float(trial.cell_worst[:, a].max()),
            theory=judge.cell_theory,
            within=float((trial.cell_worst[:, a] <= judge.bound).mean()),
        )
        for a, answer in enumerate(judge.answers)
    )
    return ReleaseErrors(
        release=release.name + judge.suffix,
        kind=judge.kind,
        attribute="&".join(release.attributes),
        width=judge.width,
        rho=str(release.rho),
        padding=judge.padding,
        bound=float(judge.bound),
        failure=float(release.failure),
        repaired=trial.repaired / n,
        independent=judge.independent,
        cells=cells,
        lines=tuple(_lines(judge, trial)),
    )


def _lines(judge: PanelJudge, trial: Trial) -> Iterator[QueryErrors]:
    """Yields the errors of every query's answers, in the periods with an answer."""
    truth, theory, n = judge.truth, judge.theory, trial.repetitions
    for number, (text, kind, width) in enumerate(judge.labels):
        for a, answer in enumerate(judge.answers):
            bias = trial.total[a, number] / n
            answered = np.flatnonzero(~np.isnan(bias))
            if answered.size == 0:
                continue
            has_theory = not np.isnan(theory[number, answered]).any()
            yield QueryErrors(
                query=text,
                kind=kind,
                width=width,
                answer=answer,
                periods=tuple(int(index) + judge.first for index in answered),
                truth=_floats(truth[number, answered]),
                mean=_floats((truth[number] + bias)[answered]),
                rmse=_floats(np.sqrt(trial.squares[a, number] / n)[answered]),
                chance=_chance(
                    trial.squares[a, number, answered].sum(), trial.query_fourths[a, number], n
                ),
                worst=_floats(trial.worst[a, number, answered]),
                theory=_floats(theory[number, answered]) if has_theory else None,
            )


def _chance(squares: float, fourths: float, n: int) -> float:
    """Computes the relative standard error of an RMSE of n repetitions, to the first order.

    The RMSE is the square root of a mean m of n squared errors, with the variance v of each: its
    relative error is sqrt(v / n) / (2 m).

    squares: the repetitions' squared errors, summed.
    fourths: the sum of their squares.
    """
    if n < 2 or not squares:
        return 0.0
    mean = squares / n
    variance = max(0.0, fourths / n - mean**2) * n / (n - 1)
    return float(np.sqrt(variance / n) / (2 * mean))


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
