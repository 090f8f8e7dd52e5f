"""Regressions about the people of a published table, from its noisy measurements.

The estimate solves the model's equations g(b) = 0 (`estimating_equations.py`). Let A be the
derivative of -g at the estimate, and V(b) the covariance of g(b). To the first order the covariance
of the estimate is A^-1 V A^-1.

Intervals are those of Fieller (1954), for one coefficient among several. Let d be 1 for
coefficient j, and let the others follow it so that A d is 0 except in j. For fixed coefficients
d'g is linear in the measurements. The interval of coefficient j has every b_j + t with
    (d'g(b + t d))^2  <=  z^2 d'V(b + t d) d.
Of a linear model this is a quadratic inequality. If the noise may hide that a term varies beside
the others, the interval is unbounded, and the model is refused. If people are a sample, V has in
addition the design's factor times the sum of squared residuals times x x' of the synthetic people.

The same model fitted to the synthetic people, as if they were people, is the naive fit: what an
analyst gets from the rows alone. Its errors know of no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy

from stream_dp.errors import UserError
from stream_dp.notebook_html import html_facts
from stream_dp.release.answer import LEVEL, QUANTILE, Interval, Sampled
from stream_dp.study.declared_sections import Sampling

from .estimating_equations import (
    MOST_STEPS,
    EstimatingEquations,
    Line,
    LinearEquations,
    LogisticEquations,
    NoSolution,
    inverse_of,
)
from .joint_sums import EmptyCells, JointTable, NotMeasured, moved_too_far
from .model_formula import ModelFormula, Term, answered_values, parse_formula
from .table_facts import Floats, PublishedTables


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a model.

    term: in words
    estimate, standard_error, interval: from the noisy measurements, for the noise alone
    sampled: the error with that of sampling people; None unless people are a sample
    naive: the estimate and the interval of a fit of the synthetic rows, as if these were people;
        None if the rows determine none
    """

    term: str
    estimate: float
    standard_error: float
    interval: Interval
    sampled: Sampled | None
    naive: tuple[float, Interval] | None

    def as_dict(self) -> dict[str, object]:
        """The coefficient as plain data."""
        naive = self.naive and {"estimate": self.naive[0], "interval": list(self.naive[1])}
        data = {
            "term": self.term,
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "interval": list(self.interval),
            "naive": naive,
        }
        return data if self.sampled is None else {**data, "sampled": self.sampled.as_dict()}


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted model.

    release, period: of the table
    formula: the model in words
    model: `linear` or `logistic`
    people: the number of people with an answer to every column, from the measurements
    coefficients: in the order of the terms, the intercept first
    covariance: (coefficients, coefficients) of the estimates, for the noise alone
    notes: what the estimates take for granted, a sentence each
    """

    release: str
    period: str
    formula: str
    model: str
    people: float
    coefficients: tuple[Coefficient, ...]
    covariance: Floats
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """The model as plain data."""
        return {
            "release": self.release,
            "period": self.period,
            "formula": self.formula,
            "model": self.model,
            "people": self.people,
            "level": LEVEL,
            "coefficients": [coefficient.as_dict() for coefficient in self.coefficients],
            "covariance": self.covariance.tolist(),
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        facts = [
            (c.term, f"{c.estimate:.5g}, {c.interval[0]:.5g} to {c.interval[1]:.5g}")
            for c in self.coefficients
        ]
        return html_facts(f"{self.formula}, {self.release}, {self.period}", facts)


_SMALLEST = 1e-9  # of a step of Newton's method, relative to the coefficients


@dataclass(frozen=True, eq=False)
class SyntheticFit:
    """The synthetic people's equations.

    people: with an answer to every column of the model
    estimate, covariance: of the naive fit; None if the rows determine none
    spread: (p, p) the sum over people of the squared residual times x x', at the given coefficients
    """

    people: float
    estimate: Floats | None
    covariance: Floats
    spread: Floats

    def coefficient(self, j: int) -> tuple[float, Interval] | None:
        """Coefficient j and its interval."""
        if self.estimate is None:
            return None
        value, error = float(self.estimate[j]), math.sqrt(self.covariance[j, j])
        return value, (value - QUANTILE * error, value + QUANTILE * error)


def synthetic_fit(
    model: ModelFormula, present: Term, published: PublishedTables, b: Floats, *, logistic: bool
) -> SyntheticFit:
    """Fits the model to the synthetic people.

    present: 1 for people with an answer to every column of the model, 0 for those left out.
    b: the coefficients of `spread`, the sum of squared residuals times x x'.
    """
    rows = published.tables["people"]
    names = list(dict.fromkeys((*model.columns, *present.functions)))
    codes = np.stack([rows[name].to_numpy() for name in names], axis=1).astype(np.int64)
    codes, counts = np.unique(codes, axis=0, return_counts=True)
    by_column = dict(zip(names, codes.T, strict=True))
    weights = counts * _on_rows(present, by_column, len(codes))
    x = np.stack([_on_rows(term, by_column, len(codes)) for term in model.terms], axis=1)
    y = _on_rows(model.outcome, by_column, len(codes))
    mean = _logistic_mean if logistic else _linear_mean
    residuals = y - mean(x @ b)
    spread = (x * (weights * residuals**2)[:, None]).T @ x
    people = float(weights.sum())
    fitted = _newton(x, y, weights, mean, logistic=logistic)
    if fitted is None:
        return SyntheticFit(people, None, spread, spread)
    estimate, inverse = fitted
    errors = y - mean(x @ estimate)
    scale = 1.0 if logistic else float(weights @ errors**2) / max(people - x.shape[1], 1.0)
    return SyntheticFit(people, estimate, scale * inverse, spread)


def _on_rows(term: Term, codes: dict[str, np.ndarray], rows: int) -> Floats:
    values = np.ones(rows)
    for name, function in term.functions.items():
        values = values * function[codes[name]]
    return values


def _linear_mean(predictors: Floats) -> Floats:
    return predictors


def _logistic_mean(predictors: Floats) -> Floats:
    means: Floats = 1 / (1 + np.exp(-np.clip(predictors, -500, 500)))
    return means


def _newton(
    x: Floats, y: Floats, weights: Floats, mean: Callable[[Floats], Floats], *, logistic: bool
) -> tuple[Floats, Floats] | None:
    """The coefficients and the inverse of their information; None without a solution.

    Newton's method: b grows by (x' diag(slopes) x)^-1 x' diag(weights) (y - means).
    """
    b = np.zeros(x.shape[1])
    for _ in range(MOST_STEPS):
        means = mean(x @ b)
        slopes = weights * means * (1 - means) if logistic else weights
        try:
            inverse = inverse_of((x * slopes[:, None]).T @ x)
        except np.linalg.LinAlgError:
            return None
        step = inverse @ (x.T @ (weights * (y - means)))
        b = b + step
        if np.abs(step).max() <= _SMALLEST * (1 + np.abs(b).max()):
            return b, inverse
    return None


SIMPLE_SAMPLE = Sampling(design_effect=Fraction(1))
RULED = "cells that the table's rules exclude count as empty"
BROKEN = "the measurements contradict the table's rules, which are not used"
FEW = 3.0  # standard errors: as many people who are absent in a column may be none
_DOUBLINGS = 24  # of an interval, within which it ends
_PRECISION = 1e-6  # of an end, in standard errors


def regress(
    published: PublishedTables, text: str, *, logistic: bool = False, sampling: bool = False
) -> Regression:
    """Fits a model in words (`model_formula.py`).

    logistic: whether the model is logistic, not linear.
    sampling: whether people are a simple random sample. A declared design counts in any case.

    Raises UserError where the measurements do not determine the model.
    """
    model = parse_formula(text, published, logistic=logistic)
    design = published.study.sampling or (SIMPLE_SAMPLE if sampling else None)
    try:
        answered = _answered(model, published)
        people = JointTable(answered.left_out, published).sums(answered.everybody)
        fit = _Fit.of(answered, published, design, float(people.values(published)[0]), logistic)
    except NotMeasured as missing:
        raise UserError(f"model '{model.text}': {_reason(missing)}") from None
    except NoSolution:
        raise UserError(
            f"model '{model.text}': terms determine one another, or the noise is too large for this"
            " model; take fewer terms"
        ) from None
    coefficients = tuple(fit.coefficient(j) for j in range(len(model.terms)))
    return Regression(
        release=published.declared.name,
        period=published.period,
        formula=model.text,
        model="logistic" if logistic else "linear",
        people=fit.people,
        coefficients=coefficients,
        covariance=fit.covariance,
        notes=(*answered.notes, *fit.notes),
    )


@dataclass(frozen=True, eq=False)
class _Answered:
    """A model of the people with an answer to its columns.

    model: its functions have a value for the few people who are absent in a column.
    present: 1 for people who are absent in none of `left_out`.
    notes: about absent people and bins.
    """

    model: ModelFormula
    present: Term
    notes: tuple[str, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns whose absent people are left out."""
        return tuple(self.present.functions)

    @property
    def everybody(self) -> Floats:
        """(1, values of the columns) 1 for counted people."""
        values = np.ones(1)
        for function in self.present.functions.values():
            values = np.multiply.outer(values, function)
        return values


def _answered(model: ModelFormula, published: PublishedTables) -> _Answered:
    """The model of people who are present. Raises NotMeasured."""
    shares, present = dict[str, Floats](), dict[str, Floats]()
    for name in model.columns:
        as_number = name in model.as_numbers
        answered = answered_values(name, published, as_number=as_number).astype(np.float64)
        if answered.all():
            continue
        counts = JointTable((name,), published).sums(np.eye(answered.size))
        numbers, noise = counts.values(published), counts.in_noise(published)
        error = math.sqrt(float(np.square((1 - answered) @ noise).sum()))
        if (1 - answered) @ numbers < FEW * error + 0.5:
            likely = np.maximum(numbers, 1e-9) * answered
            shares[name] = likely / likely.sum()
        else:
            present[name] = answered

    def filled(term: Term) -> Term:
        """The term with the mean of every function for the few absent people."""
        functions = {
            name: np.where(shares[name] > 0, values, values @ shares[name])
            if name in shares
            else values
            for name, values in term.functions.items()
        }
        return replace(term, functions=functions)

    notes = list[str]()
    if present:
        notes.append(f"people without an answer to {', '.join(present)} are left out")
    coded = [n for n in model.binned if n in model.as_numbers and published.numbers[n].special]
    if coded:
        notes.append(f"special codes of {', '.join(coded)} are no numbers: they are no answer here")
    if shares:
        notes.append(f"few or no people have no answer to {', '.join(shares)}: they have the mean")
    if model.binned:
        notes.append(f"numbers count as the mean of their bin: {', '.join(model.binned)}")
    terms = tuple(filled(term) for term in model.terms)
    complete = replace(model, outcome=filled(model.outcome), terms=terms)
    return _Answered(complete, Term("", present), tuple(notes))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A solution of the equations.

    people: their number.
    estimate, inverse: b and A^-1.
    rows: what the synthetic people say.
    design: of the sample; None if people are none.
    notes: about the rules of the table.
    """

    model: ModelFormula
    equations: EstimatingEquations
    people: float
    estimate: Floats
    inverse: Floats
    rows: SyntheticFit
    design: Sampling | None
    notes: tuple[str, ...]

    @staticmethod
    def of(
        answered: _Answered,
        published: PublishedTables,
        design: Sampling | None,
        people: float,
        logistic: bool,
    ) -> _Fit:
        """Solves the equations. Raises NotMeasured, NoSolution."""
        model, present = answered.model, answered.present
        named = (*model.columns, *present.functions)
        empty = EmptyCells.of(named, published)
        without, notes = _equations(model, present, published, logistic, None), tuple[str, ...]()
        equations = without
        if empty is not None:
            equations, notes = _equations(model, present, published, logistic, empty), (RULED,)
            if _contradicted(without, equations):
                equations, notes = without, (BROKEN,)
        estimate, inverse = _solved(equations)
        rows = synthetic_fit(model, present, published, estimate, logistic=logistic)
        return _Fit(model, equations, people, estimate, inverse, rows, design, notes)

    @property
    def covariance(self) -> Floats:
        """A^-1 V A^-1."""
        covariance: Floats = self.inverse @ self.equations.covariance(self.estimate) @ self.inverse
        return covariance

    @property
    def spread(self) -> Floats:
        """The covariance of g by sampling people."""
        if self.design is None:
            return np.zeros_like(self.inverse)
        factor = self.design.factor * max(self.people, 0.0) / max(self.rows.people, 1.0)
        return factor * self.rows.spread

    def coefficient(self, j: int) -> Coefficient:
        """Coefficient j: on the line b + t d with d = A^-1 e_j / (A^-1)_jj it is b_j + t.

        Raises UserError if its interval is unbounded.
        """
        d, width = self.inverse[:, j] / self.inverse[j, j], float(self.inverse[j, j])
        line, estimate = self.equations.along(self.estimate, d), float(self.estimate[j])
        _, variance = line(0.0)
        error = width * math.sqrt(variance)
        low, high = self._interval(j, line, error, 0.0)
        sampled = None
        if self.design is not None:
            spread = float(d @ self.spread @ d)
            both = width * math.sqrt(variance + spread)
            below, above = self._interval(j, line, both, spread)
            interval = (estimate + min(low, below), estimate + max(high, above))
            sampled = Sampled(both, interval, self.design.label)
        return Coefficient(
            term=self.model.terms[j].label,
            estimate=estimate,
            standard_error=error,
            interval=(estimate + low, estimate + high),
            sampled=sampled,
            naive=self.rows.coefficient(j),
        )

    def _interval(self, j: int, line: Line, error: float, spread: float) -> Interval:
        """The interval of coefficient j, less the estimate. Raises UserError."""
        if (ends := _ends(line, error, spread)) is None:
            raise UserError(
                f"model '{self.model.text}': the noise may hide how"
                f" '{self.model.terms[j].label}' varies beside the other terms; leave a term out"
            )
        return ends


def _equations(
    model: ModelFormula,
    present: Term,
    published: PublishedTables,
    logistic: bool,
    empty: EmptyCells | None,
) -> EstimatingEquations:
    """The equations of a model. empty: the cells that rules leave empty. Raises NotMeasured."""
    if not logistic:
        return LinearEquations(model.outcome, model.terms, present, published, empty)
    named = {*model.covariates, *present.functions}
    covariates = [name for name in published.names["people"] if name in named]
    return LogisticEquations(model.outcome, model.terms, present, covariates, published, empty)


def _solved(equations: EstimatingEquations) -> tuple[Floats, Floats]:
    """The estimate and A^-1. Raises NoSolution."""
    estimate = equations.solution()
    try:
        return estimate, inverse_of(equations.slopes(estimate))
    except np.linalg.LinAlgError:
        raise NoSolution from None


def _contradicted(without: EstimatingEquations, ruled: EstimatingEquations) -> bool:
    """Whether rules move a coefficient by more than their noise explains.

    Where people break the rules, the equations with rules may have no solution. Raises NoSolution
    where neither have one.
    """
    try:
        b, inverse = _solved(ruled)
    except NoSolution:
        b, inverse = _solved(without)
    moved = inverse @ (without.scores(b) - ruled.scores(b))
    before, after = (np.diag(inverse @ e.covariance(b) @ inverse) for e in (without, ruled))
    return moved_too_far(moved, before, after)


def _ends(line: Line, error: float, spread: float) -> Interval | None:
    """The ends of an interval around 0, or None if it is unbounded.

    They are where value(t)^2 = z^2 (variance(t) + spread), found outwards from z errors.

    error: the standard error; spread: a further variance.
    """

    def beyond(t: float) -> float:
        value, variance = line(t)
        return value**2 - QUANTILE**2 * (variance + spread)

    ends = []
    for sign in (-1, 1):
        inner, outer = 0.0, sign * QUANTILE * error
        for _ in range(_DOUBLINGS):
            if beyond(outer) > 0:
                break
            inner, outer = outer, 2 * outer
        else:
            return None
        low, high = sorted((inner, outer))
        ends.append(float(scipy.optimize.brentq(beyond, low, high, xtol=_PRECISION * error)))
    return ends[0], ends[1]


def _reason(missing: NotMeasured) -> str:
    """Why the measurements do not determine a model."""
    names = missing.columns
    together = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if missing.cells:
        return f"{together} have {missing.cells:,} cells together, too many; name fewer columns"
    if len(names) == 1:
        return f"{together} was not measured"
    return f"{together} were not measured together"
