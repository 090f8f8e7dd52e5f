"""Regressions cover the truth as often as they say: over the noise, and over samples of people."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from kit.data_sets import people_table

from stream_dp.answers.tables.estimating_equations import LinearEquations, LogisticEquations
from stream_dp.answers.tables.model_formula import Term, parse_formula
from stream_dp.answers.tables.regression import regress
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import residual
from stream_dp.release.published_tables import coded_people

MODELS = [("sex=f ~ age + work=full", False, 100), ("work=full|half ~ age", True, 60)]


def noisy(exact: PublishedTables, noise: np.ndarray) -> PublishedTables:
    """The same measurements with noise, in units of their standard errors."""
    errors = exact.measurements["standard_error"].to_numpy()
    values = exact.values + errors * noise
    measurements = exact.measurements.set_column(1, "value", pa.array(values))
    tables = replace(exact, measurements=measurements)
    vars(tables)["rows_of"] = exact.rows_of
    return tables


def normal(exact: PublishedTables, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(len(exact.values))


def score_square(text: str, logistic: bool, scale: float) -> float:
    """The mean of g' V^-1 g over coefficients, of the equations at the true coefficients.

    The noises are rows of a Hadamard matrix: they are uncorrelated and have variance 1 not only on
    average, so that no other draws are needed.
    """
    exact, _, _ = people_table(moves=True)
    model = parse_formula(text, exact, logistic=logistic)

    def equations(tables: PublishedTables) -> LinearEquations | LogisticEquations:
        parts = (model.outcome, model.terms, Term("", {}))
        if logistic:
            return LogisticEquations(*parts, model.covariates, tables)
        return LinearEquations(*parts, tables)

    truth, squares, signs = equations(exact).solution(), [], np.ones((1, 1))
    while len(signs) < len(exact.values):
        signs = np.block([[signs, signs], [signs, -signs]])
    signs *= np.random.default_rng(3).choice([-1, 1], len(signs))
    for noise in scale * signs[:, : len(exact.values)]:
        own = equations(noisy(exact, noise))
        scores = own.scores(truth)
        squares.append(scores @ np.linalg.solve(own.covariance(truth), scores))
    return float(np.mean(squares)) / len(truth)


@pytest.mark.parametrize(("text", "logistic"), [model[:2] for model in MODELS])
def test_equations_have_the_covariance_that_they_say(text: str, logistic: bool) -> None:
    """A scale that is 5 % off has the mean 1.10 or 0.90."""
    assert 0.95 < score_square(text, logistic, 1.0) < 1.05
    assert score_square(text, logistic, 1.05) > 1.05
    assert score_square(text, logistic, 0.95) < 0.95


@pytest.mark.parametrize(("text", "logistic", "draws"), MODELS)
def test_intervals_cover_the_truth(text: str, logistic: bool, draws: int) -> None:
    exact, _, _ = people_table(moves=True)
    truth = [c.estimate for c in regress(exact, text, logistic=logistic).coefficients]
    rng, covered = np.random.default_rng(4), []
    for _ in range(draws):
        fit = regress(noisy(exact, normal(exact, rng)), text, logistic=logistic)
        pairs = zip(fit.coefficients, truth, strict=True)
        covered += [c.interval[0] <= true <= c.interval[1] for c, true in pairs]
    assert 0.92 < np.mean(covered) < 0.98


@pytest.mark.parametrize(("text", "logistic", "draws"), MODELS)
def test_noise_and_sampling_together_cover_the_population(
    text: str, logistic: bool, draws: int
) -> None:
    """Of 300 people from a large population with these shares; the noise alone covers less."""
    exact, residuals, people = people_table(moves=True)
    truth = [c.estimate for c in regress(exact, text, logistic=logistic).coefficients]
    rng = np.random.default_rng(5)
    covered, alone = list[bool](), list[bool]()
    for _ in range(draws):
        sample = People(people.domain, people.codes[rng.integers(0, 300, 300)])
        values = np.concatenate([residual(sample, own).ravel() for own in residuals.sets])
        measurements = exact.measurements.set_column(1, "value", pa.array(values.astype(float)))
        rows = coded_people(exact.columns["people"], sample.codes)
        tables = replace(exact, measurements=measurements, tables={"people": rows})
        vars(tables)["rows_of"] = exact.rows_of
        fit = regress(noisy(tables, normal(exact, rng)), text, logistic=logistic, sampling=True)
        for c, true in zip(fit.coefficients, truth, strict=True):
            assert c.sampled is not None
            low, high = c.sampled.interval
            covered.append(low <= true <= high)
            alone.append(c.interval[0] <= true <= c.interval[1])
    assert 0.92 < np.mean(covered) < 0.985
    assert np.mean(alone) < 0.7
