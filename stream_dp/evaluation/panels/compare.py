"""Every form of every release against the paper's, at equal rho and equal relation.

CONFIDENTIAL where the panel is real, as every evaluation is. A panel of simulated people is said
to be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_dp.study import Study

from ..pool import cores, run_repetitions
from .best import best_errors
from .comparison import AnswerErrors, Comparison, FormErrors, ReleaseComparison
from .plans import Truth, count_people
from .repeat import release_errors
from .report import QueryErrors, ReleaseErrors
from .trial import Floats, PanelJudge
from .variants import Variant, variants

# Of a cumulative release's sums, those that are named: as `estimate` lists them.
_NAMED_TOTALS = 3


def compare(
    study: Study,
    truth: Truth,
    repetitions: int,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool = True,
    *,
    data: str | None = None,
    simulated: bool = False,
) -> Comparison:
    """All forms of all releases, over `repetitions` runs with simulated noise each.

    The arguments are those of `repeat.evaluate_panels`; data: what the panel is called.
    """
    people = count_people(study, truth)
    found = [
        (release, variant)
        for release in study.releases
        for variant in variants(study, release, truth)
    ]
    plans = [(variant.plan, (seed,), i) for i, (_, variant) in enumerate(found)]
    done = run_repetitions(plans, repetitions, cores() if jobs is None else jobs, progress)
    held: dict[tuple[str, str], list[_Judged]] = {}
    for (release, variant), trials in zip(found, done, strict=True):
        best = best_errors(variant.study, variant.release, variant.plan)
        for judge, trial, known in zip(variant.plan.judges, trials, best, strict=True):
            seen = release_errors(variant.release, judge, trial)
            rows = [*_measured(seen, repetitions), *_known(judge, known)]
            held.setdefault((release.name, judge.kind), []).append((variant, seen, rows))
    contests = tuple(
        _contest(name, kind, str(study.release(name).rho), forms)
        for (name, kind), forms in held.items()
    )
    return Comparison(
        data=study.name if data is None else data,
        simulated=simulated,
        study=study.name,
        unit=study.unit,
        neighbours=study.neighbours,
        people=people,
        periods=study.periods.count,
        repetitions=repetitions,
        seed=seed,
        contests=contests,
    )


# A form, what was found of it, and the fields of each quantity but for its ratios.
_Judged = tuple[Variant, ReleaseErrors, list[dict[str, Any]]]


def _contest(name: str, kind: str, rho: str, forms: list[_Judged]) -> ReleaseComparison:
    paper = next(rows for variant, _, rows in forms if variant.paper)
    yardstick = {row["query"]: row for row in paper if row["answer"] == "panel"}
    made = []
    for variant, found, rows in forms:
        quantities = []
        for row in rows:
            base = yardstick[row["query"]]
            ratio, worst = (_over(row[key], base[key]) for key in ("rmse", "worst"))
            quantities.append(AnswerErrors(**row, ratio=ratio, worst_ratio=worst))
        made.append(
            FormErrors(
                variant.label,
                variant.title,
                found.rho,
                variant.paper,
                variant.chosen,
                tuple(quantities),
            )
        )
    return ReleaseComparison(name, kind, rho, forms[0][1].width, tuple(made))


def _over(found: float | None, base: float | None) -> float | None:
    return None if found is None or not base else found / base


_CELLS = {"window": ("every pattern", "bin"), "cumulative": ("every cell", "total")}


def _measured(found: ReleaseErrors, repetitions: int) -> Iterator[dict[str, Any]]:
    """The fields of each quantity but for its ratios."""
    name, cell = _CELLS[found.kind]
    for cells in found.cells:
        if cells.answer == "undebiased":
            continue
        each = found.of_kind(cell, cells.answer)
        rmse = np.concatenate([line.rmse for line in each]) if each else None
        yield {
            "query": name,
            "answer": cells.answer,
            "bias": _net_bias(each, repetitions) if each else None,
            "rmse": cells.rmse,
            "worst": None if rmse is None else float(rmse.max()),
            "theory": cells.theory if cells.answer == "raw" else None,
        }
        lines = found.of_kind(cell, cells.answer) if cell == "total" else ()
        chosen = [lines[i] for i in _some(len(lines))] or found.of_kind("named", cells.answer)
        for line in chosen:
            yield {
                "query": line.query,
                "answer": cells.answer,
                "bias": float(np.mean(line.bias)),
                "rmse": _rms(line.rmse),
                "worst": max(line.rmse),
                "theory": _rms(line.theory) if line.theory and cells.answer == "raw" else None,
            }


def _some(sums: int) -> list[int]:
    """Of so many sums, the places of those that are named."""
    return list(dict.fromkeys((0, min(_NAMED_TOTALS, sums) - 1, sums - 1))) if sums else []


def _known(judge: PanelJudge, best: Floats | None) -> Iterator[dict[str, Any]]:
    """The same of the best estimates, whose errors are known."""
    if best is None:
        return
    name, cell = _CELLS[judge.kind]
    kinds = [kind for _, kind, _ in judge.labels]
    cells = [i for i, kind in enumerate(kinds) if kind == cell]
    named = [cells[i] for i in _some(len(cells))] if cell == "total" else []
    named = named or [i for i, kind in enumerate(kinds) if kind == "named"]
    for query, rows in [(name, cells), *((judge.labels[i][0], [i]) for i in named)]:
        own = best[rows][~np.isnan(judge.truth[rows])]
        if own.size and not np.isnan(own).any():
            rmse, worst = _rms(tuple(own)), float(own.max())
            held = {"rmse": rmse, "worst": worst, "theory": rmse}
            yield {"query": query, "answer": "best", "bias": 0.0, **held}


def _net_bias(lines: tuple[QueryErrors, ...], repetitions: int) -> float:
    """Root mean square bias of all cells, from which the noise of their means is taken off."""
    bias = np.concatenate([line.bias for line in lines])
    noise = np.concatenate([line.deviation for line in lines]) ** 2 / max(repetitions - 1, 1)
    return math.sqrt(max(0.0, float((bias**2 - noise).mean())))


def _rms(numbers: tuple[float, ...]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
