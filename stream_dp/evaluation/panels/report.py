"""What an evaluation found: frozen values, as rows of a table, as text and as JSON.

CONFIDENTIAL. Truths, means and errors are computed from true data, and no noise protects them:
every form says so. All numbers are people; a share is that over `people`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..table import WARNING, evaluation_text
from .agreement import disagreements


@dataclass(frozen=True)
class QueryErrors:
    """One query and one answer to it, through the periods in which it is asked.

    answer: "raw", the release's own unbiased estimates; "panel", the synthetic panel (for windows
    less its padding, if any); "undebiased", the panel's plain share. kind: "bin", "named",
    "narrower" or "wider" for windows, "total" for cumulative releases. width: the query's width,
    or b. periods: numbers from 1. worst: the largest error of any repetition. theory: standard
    deviation of the raw answer, a yardstick for the others; None where there is none.
    """

    query: str
    kind: str
    width: int
    answer: str
    periods: tuple[int, ...]
    truth: tuple[float, ...]
    mean: tuple[float, ...]
    rmse: tuple[float, ...]
    worst: tuple[float, ...]
    theory: tuple[float, ...] | None

    @property
    def bias(self) -> tuple[float, ...]:
        return tuple(m - t for m, t in zip(self.mean, self.truth, strict=True))

    @property
    def deviation(self) -> tuple[float, ...]:
        """Standard deviation of the answer over the repetitions."""
        pairs = zip(self.rmse, self.bias, strict=True)
        return tuple(math.sqrt(max(r * r - b * b, 0)) for r, b in pairs)

    @property
    def ratio(self) -> tuple[float, ...] | None:
        """RMSE over theory, by period."""
        if self.theory is None:
            return None
        return tuple(r / s for r, s in zip(self.rmse, self.theory, strict=True))


@dataclass(frozen=True)
class CellErrors:
    """One answer over all cells of a release: bins and periods, or every b <= t.

    within: the share of repetitions whose worst cell stayed within the release's error bound;
    number: how many cells there are.
    """

    answer: str
    number: int
    rmse: float
    worst: float
    theory: float
    within: float


@dataclass(frozen=True)
class ReleaseErrors:
    """One release. rho is exact; bound: the published error bound, kept with probability
    1 - failure; repaired: share of repetitions whose noisy counts had to be repaired (below zero,
    not monotone, or not of one panel); independent: whether the raw answers to all cells are
    independent and have the same variance.
    """

    release: str
    kind: str
    attribute: str
    width: int | None
    rho: str
    padding: int | None
    bound: float
    failure: float
    repaired: float
    independent: bool
    cells: tuple[CellErrors, ...]
    lines: tuple[QueryErrors, ...]

    def line(self, query: str, answer: str) -> QueryErrors | None:
        found = [x for x in self.lines if x.query == query and x.answer == answer]
        return found[0] if found else None

    def of_kind(self, kind: str, answer: str) -> tuple[QueryErrors, ...]:
        return tuple(x for x in self.lines if x.kind == kind and x.answer == answer)


@dataclass(frozen=True)
class Evaluation:
    """The errors of a study's declared releases on a known panel, over simulated repetitions."""

    study: str
    study_hash: str
    unit: str
    neighbours: str
    rho: str
    people: int
    periods: tuple[str, ...]
    repetitions: int
    seed: int
    releases: tuple[ReleaseErrors, ...]
    confidential: bool = True

    def rows(self) -> list[dict[str, Any]]:
        return summary_rows(self)

    def disagreements(self, chance: float = 1e-4) -> list[str]:
        """Where raw answers are not unbiased with the variance that theory says; normally none.

        Each cell's mean and mean square are held against their normal and chi-square laws, and
        so is the mean square of all bins of a window, whose noise is independent; the chance that
        a correct mechanism is blamed at all is about `chance` at most (union bound).
        """
        return disagreements(self, chance)

    def table(self) -> str:
        """The summary as text, one table a release; the first line says it is confidential."""
        return evaluation_text(self)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; `from_dict` reads them back."""
        found = asdict(self)
        for release, held in zip(found["releases"], self.releases, strict=True):
            for line, source in zip(release["lines"], held.lines, strict=True):
                line["bias"], line["ratio"] = source.bias, source.ratio
        return {"confidential": True, "warning": WARNING, **_listed(found)}


def from_dict(raw: dict[str, Any]) -> Evaluation:
    """The evaluation that `as_dict` wrote."""
    releases = tuple(
        ReleaseErrors(
            **{
                **_only(ReleaseErrors, item),
                "cells": tuple(CellErrors(**_only(CellErrors, c)) for c in item["cells"]),
                "lines": tuple(
                    QueryErrors(**_tupled(_only(QueryErrors, x))) for x in item["lines"]
                ),
            }
        )
        for item in raw["releases"]
    )
    return Evaluation(**{**_tupled(_only(Evaluation, raw)), "releases": releases})


def summary_rows(found: Evaluation) -> list[dict[str, Any]]:
    """One row for each release, query and answer, pooled over periods; confidential.

    rmse and theory are root mean squares over periods, bias the largest in size with its sign,
    worst the largest. The first rows of a release are over all of its cells.
    """
    rows: list[dict[str, Any]] = []
    for errors in found.releases:
        name = "every pattern" if errors.kind == "window" else "every cell"
        rows += [
            _row(errors, name, "cells", c.answer, None, c.rmse, None, c.worst, c.theory)
            for c in errors.cells
        ]
        for line in errors.lines:
            theory = None if line.theory is None else _rms(line.theory)
            truth = sum(line.truth) / len(line.truth)
            bias, worst = max(line.bias, key=abs), max(line.worst)
            rmse = _rms(line.rmse)
            rows.append(
                _row(errors, line.query, line.kind, line.answer, truth, rmse, bias, worst, theory)
            )
    return rows


def _row(
    errors: ReleaseErrors,
    query: str,
    kind: str,
    answer: str,
    truth: float | None,
    rmse: float,
    bias: float | None,
    worst: float,
    theory: float | None,
) -> dict[str, Any]:
    return {
        "confidential": True,
        "release": errors.release,
        "query": query,
        "kind": kind,
        "answer": answer,
        "truth": truth,
        "rmse": rmse,
        "theory": theory,
        "ratio": None if theory is None else rmse / theory,
        "bias": bias,
        "worst": worst,
    }


def _rms(numbers: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def _only(kind: type, raw: dict[str, Any]) -> dict[str, Any]:
    return {f.name: raw[f.name] for f in fields(kind)}


def _tupled(raw: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_listed(v) for v in value]
    return value
