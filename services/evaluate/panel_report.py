"""The result of an evaluation of panels: frozen values, written in full as JSON, and as text.

CONFIDENTIAL. Truths, means and errors are computed from true data, and no noise protects them:
every form says so. All numbers are in people; divided by the number of people they are shares. A
test compares, cell by cell, the variance of the raw answers with theory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy

from stream_dp.continual.mechanism_interface import PanelError
from stream_dp.json_object import Json

from ..process.command_output import WARNING, decimal, plain_table
from .trial import Floats


@dataclass(frozen=True)
class QueryErrors:
    """The errors of an answer to a query, in every period of the query."""

    query: str
    # "bin", "named", "narrower" or "wider" for windows, "total" for cumulative releases.
    kind: str
    # The query's width, or b of a total.
    width: int
    # "raw": the release's own unbiased estimates; "panel": the synthetic panel, for windows less
    # its padding; "undebiased": the panel's plain share times the people.
    answer: str
    # Numbers from 1; the sequences below have an entry for each.
    periods: tuple[int, ...]
    truth: tuple[float, ...]
    # Over the repetitions: the answer's mean, its root mean square error, its largest error.
    mean: tuple[float, ...]
    rmse: tuple[float, ...]
    # The relative standard error of the RMSE over all periods.
    chance: float
    worst: tuple[float, ...]
    # The standard deviation of the raw answer, a yardstick for the others; None for wider queries.
    theory: tuple[float, ...] | None

    @property
    def bias(self) -> tuple[float, ...]:
        return tuple(m - t for m, t in zip(self.mean, self.truth, strict=True))

    @property
    def deviation(self) -> tuple[float, ...]:
        """The standard deviation of the answer over the repetitions."""
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
    """The errors of an answer over all cells of a release: bins and periods, or every b <= t."""

    answer: str
    # The number of cells.
    number: int
    rmse: float
    # The relative standard error of the RMSE.
    chance: float
    worst: float
    theory: float
    # The share of repetitions whose worst cell stayed within the release's error bound.
    within: float


@dataclass(frozen=True)
class ReleaseErrors:
    """The errors of a release, or of a class of its queries."""

    release: str
    # "window" or "cumulative".
    kind: str
    attribute: str
    # Of a window release.
    width: int | None
    # Exact, as a fraction.
    rho: str
    padding: int | None
    # The published error bound, which holds with probability 1 - failure.
    bound: float
    failure: float
    # The share of repetitions whose noisy counts had to be repaired: a count was below zero, counts
    # were not monotone, or no panel had them.
    repaired: float
    # Whether the raw answers to all cells are independent and have the same variance.
    independent: bool
    cells: tuple[CellErrors, ...]
    lines: tuple[QueryErrors, ...]

    def line(self, query: str, answer: str) -> QueryErrors | None:
        matching = (x for x in self.lines if x.query == query and x.answer == answer)
        return next(matching, None)

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

    def as_dict(self) -> Json:
        """Converts the evaluation to JSON values."""
        fields_by_name = asdict(self)
        for release, errors in zip(fields_by_name["releases"], self.releases, strict=True):
            for line, query_errors in zip(release["lines"], errors.lines, strict=True):
                line["bias"], line["ratio"] = query_errors.bias, query_errors.ratio
        return {"confidential": True, "warning": WARNING, **fields_by_name}


@dataclass(frozen=True)
class Sweep:
    """The same study at several multiples of its rhos; confidential like each evaluation."""

    # Exact, as fractions.
    scales: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    def as_dict(self) -> Json:
        pairs = zip(self.scales, self.evaluations, strict=True)
        points = [{"scale": scale, "evaluation": e.as_dict()} for scale, e in pairs]
        return {"confidential": True, "warning": WARNING, "points": points}


def root_mean_square(numbers: Sequence[float] | Floats) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


# Cells of smaller variance are not tested: the discrete Gaussian then has heavier tails than the
# chi-square test below allows for.
LEAST_VARIANCE = 1.0


def disagreements(evaluation: Evaluation, chance: float = 1e-4) -> list[str]:
    """Lists biases of raw answers and deviations from the theoretical variance; normally none.

    Each cell's mean is compared with its normal law and its mean square with its chi-square law.
    So is the mean square of all bins of a window whose noise is independent.

    chance: about the largest probability that a correct mechanism is blamed at all (union bound).
    """
    tested = [
        (errors, line, i)
        for errors in evaluation.releases
        for line in errors.lines
        if line.answer == "raw" and line.theory is not None
        for i in range(len(line.periods))
        if line.theory[i] ** 2 >= LEAST_VARIANCE
    ]
    windows = [
        (errors, cells)
        for errors in evaluation.releases
        for cells in errors.cells
        if errors.independent and cells.answer == "raw" and cells.theory**2 >= LEAST_VARIANCE
    ]
    if not tested and not windows:
        return []
    tail, n = chance / (4 * len(tested) + 2 * len(windows)), evaluation.repetitions
    low, high = _square_limits(tail, n)
    reach = float(scipy.stats.norm.isf(tail)) / math.sqrt(n)
    faults = []
    for errors, cells in windows:
        square = (cells.rmse / cells.theory) ** 2
        low_windows, high_windows = _square_limits(tail, n * cells.number)
        if not low_windows <= square <= high_windows:
            cell = f"{errors.release}, every pattern"
            faults.append(_wrong_size(cell, square))
    for errors, line, i in tested:
        assert line.theory is not None
        cell = f"{errors.release}, {line.query}, period {evaluation.periods[line.periods[i] - 1]}"
        square, bias = (line.rmse[i] / line.theory[i]) ** 2, line.bias[i] / line.theory[i]
        if not low <= square <= high:
            faults.append(_wrong_size(cell, square))
        if abs(bias) > reach:
            faults.append(f"{cell}: biased by {bias:+.3f} standard deviations")
    return faults


def _wrong_size(cell: str, square: float) -> str:
    return f"{cell}: RMSE is {math.sqrt(square):.3f} times the theory"


def _square_limits(tail: float, freedom: int) -> tuple[float, float]:
    """Returns quantiles of the mean of `freedom` squared standard normals, `tail` on every side."""
    return scipy.stats.chi2.ppf(tail, freedom) / freedom, scipy.stats.chi2.isf(
        tail, freedom
    ) / freedom


# A window's bins are listed one by one up to this number.
MOST_BINS = 48


class _Pooled(NamedTuple):
    """The errors of an answer to a query, pooled over periods; of all cells no truth and no bias.

    bias: the largest in size, with its sign.
    """

    rmse: float
    theory: float | None
    worst: float
    truth: float | None = None
    bias: float | None = None


def _pooled(line: QueryErrors) -> _Pooled:
    return _Pooled(
        rmse=root_mean_square(line.rmse),
        theory=None if line.theory is None else root_mean_square(line.theory),
        worst=max(line.worst),
        truth=sum(line.truth) / len(line.truth),
        bias=max(line.bias, key=abs),
    )


def evaluation_text(
    evaluation: Evaluation, stated: Mapping[str, Sequence[PanelError]] | None = None
) -> str:
    """Writes a table per release, then whether raw answers have the theoretical errors.

    stated: by release, the errors that certificates state of the panel's own answers.
    """
    blocks = [
        f"{WARNING}\nstudy {evaluation.study}: {evaluation.people} people, "
        f"{len(evaluation.periods)} periods, {evaluation.neighbours}, "
        f"{evaluation.repetitions} repetitions, seed {evaluation.seed}\n"
        "errors in people, root mean square over repetitions and periods; bias and worst: the "
        "largest of any period"
    ]
    for errors in evaluation.releases:
        certified = (stated or {}).get(errors.release.split(" ")[0], ())
        table = text_table(errors, {error.query: error for error in certified})
        blocks.append(f"{_heading(errors)}\n{table}")
    faults = disagreements(evaluation)
    note = "raw answers agree with theory, cell by cell, as far as these repetitions can tell"
    blocks.append("\n".join(["raw answers DISAGREE with theory:", *faults]) if faults else note)
    return "\n\n".join(blocks)


def _heading(errors: ReleaseErrors) -> str:
    """The release with its parameters, and how often its answers kept the error bound."""
    head = f"{errors.release} ({errors.kind}"
    head += f", width {errors.width}" if errors.width else ""
    head += f", padding {errors.padding}" if errors.padding else ""
    coverage = ", ".join(
        f"{c.answer} {c.within:.1%}" for c in errors.cells if c.answer != "undebiased"
    )
    return (
        f"{head}, rho {errors.rho}): error bound {errors.bound:.1f} in every cell with probability "
        f"{1 - errors.failure:g}; kept in: {coverage} of the repetitions; "
        f"some count had to be repaired in {errors.repaired:.1%}"
    )


def text_table(errors: ReleaseErrors, stated: Mapping[str, PanelError]) -> str:
    """Writes all cells of a release, then its queries, with answers side by side.

    stated: by query, what certificates state of the panel's own answers.
    """
    name = "every pattern" if errors.kind == "window" else "every cell"
    queries = {name: {c.answer: _Pooled(c.rmse, c.theory, c.worst) for c in errors.cells}}
    bins = sum(line.kind == "bin" for line in errors.lines)
    for query in errors.lines:
        if query.kind != "bin" or bins <= MOST_BINS:
            queries.setdefault(query.query, {})[query.answer] = _pooled(query)
    has_plain_share = "undebiased" in queries[name]
    head = ["query", "mean truth", "theory", "raw RMSE", "ratio", "panel RMSE", "panel bias"]
    head += ["stated RMSE", "stated mean bias"] if stated else []
    head += ["undebiased RMSE"] if has_plain_share else []
    head += ["worst raw", "worst panel"]
    lines = []
    for query_text, by_answer in queries.items():
        raw, panel = by_answer.get("raw"), by_answer["panel"]
        ratio = raw.rmse / raw.theory if raw and raw.theory is not None else None
        line = [query_text, decimal(panel.truth), decimal(panel.theory)]
        line += [decimal(raw and raw.rmse), decimal(ratio, 3)]
        line += [decimal(panel.rmse), decimal(panel.bias, signed=True)]
        if stated:
            certified = stated.get(query_text)
            line.append(decimal(None if certified is None else certified.error))
            line.append(decimal(None if certified is None else certified.bias, signed=True))
        if has_plain_share:
            line.append(decimal(by_answer["undebiased"].rmse))
        lines.append([*line, decimal(raw and raw.worst), decimal(panel.worst)])
    return plain_table(head, lines)


def sweep_text(sweep: Sweep) -> str:
    """Writes a line per release and rho."""
    head = ["release", "rho", "theory", "raw RMSE", "panel RMSE", "undebiased RMSE"]
    lines = []
    for at_one_scale in zip(
        *(evaluation.releases for evaluation in sweep.evaluations), strict=True
    ):
        for errors in at_one_scale:
            rmse = {cells.answer: f"{cells.rmse:.1f}" for cells in errors.cells}
            line = [errors.release, f"{float(Fraction(errors.rho)):g}"]
            line += [f"{errors.cells[0].theory:.1f}", rmse["raw"], rmse["panel"]]
            lines.append([*line, rmse.get("undebiased", "-")])
    return f"{WARNING}\nRMSE over all cells, in people\n\n{plain_table(head, lines)}"
