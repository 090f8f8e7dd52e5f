"""Repeat the declared mechanisms of a study on a known panel: errors against theory.

For trials on simulated or past data. Noise comes from seeded generators, so nothing that this
prints is private, and everything that it prints is CONFIDENTIAL where the panel is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study import Release, Study

from ..pool import cores as _cores
from ..pool import run_repetitions
from .plans import Truth, count_people, trial_plan, visible_symbols
from .report import CellErrors, Evaluation, QueryErrors, ReleaseErrors, Sweep
from .trial import PanelJudge, Trial


def evaluate_panels(
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


def sweep(
    study: Study,
    truth: Truth,
    scales: Sequence[float | str | Fraction],
    repetitions: int,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
) -> Sweep:
    """`evaluate_panels` with every rho multiplied by each scale, noise drawn afresh."""
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
    people = count_people(asked[0][0], truth)
    plans = [
        (trial_plan(study, release, visible_symbols(study, release, truth)), entropy, place)
        for study, entropy in asked
        for place, release in enumerate(study.releases)
    ]
    done = run_repetitions(plans, repetitions, _cores() if jobs is None else jobs, progress)
    finished = zip(plans, done, strict=True)
    found = []
    for study, _ in asked:
        releases: list[ReleaseErrors] = []
        for release in study.releases:
            (made, _, _), trials = next(finished)
            releases += map(release_errors, [release] * len(trials), made.judges, trials)
        found.append(
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
    return found


def release_errors(release: Release, judge: PanelJudge, done: Trial) -> ReleaseErrors:
    """What a judge found of a release."""
    n = done.repetitions
    cells = tuple(
        CellErrors(
            answer=answer,
            number=int(done.cells[a]),
            rmse=float(np.sqrt(done.cell_squares[a] / (n * done.cells[a]))),
            worst=float(done.cell_worst[:, a].max()),
            theory=judge.cell_theory,
            within=float((done.cell_worst[:, a] <= judge.bound).mean()),
        )
        for a, answer in enumerate(judge.answers)
    )
    return ReleaseErrors(
        release=release.name + judge.part,
        kind=judge.kind,
        attribute="&".join(release.attributes),
        width=judge.width,
        rho=str(release.rho),
        padding=judge.padding,
        bound=float(judge.bound),
        failure=float(release.failure),
        repaired=done.repaired / n,
        independent=judge.independent,
        cells=cells,
        lines=tuple(_lines(judge, done)),
    )


def _lines(judge: PanelJudge, done: Trial) -> Iterator[QueryErrors]:
    """Each query's answers, in the periods in which they are given."""
    truth, theory, n = judge.truth, judge.theory, done.repetitions
    for number, (text, kind, width) in enumerate(judge.labels):
        for a, answer in enumerate(judge.answers):
            bias = done.total[a, number] / n
            given = np.flatnonzero(~np.isnan(bias))
            if given.size == 0:
                continue
            known = not np.isnan(theory[number, given]).any()
            yield QueryErrors(
                query=text,
                kind=kind,
                width=width,
                answer=answer,
                periods=tuple(int(p) + judge.first for p in given),
                truth=_floats(truth[number, given]),
                mean=_floats((truth[number] + bias)[given]),
                rmse=_floats(np.sqrt(done.squares[a, number] / n)[given]),
                worst=_floats(done.worst[a, number, given]),
                theory=_floats(theory[number, given]) if known else None,
            )


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
