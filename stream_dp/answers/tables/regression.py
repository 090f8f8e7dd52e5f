"""The result of a regression about the people of a published table."""

from __future__ import annotations

from dataclasses import dataclass

from stream_dp.notebook_html import html_facts

from ..answer import LEVEL, Interval, Sampled
from .table_facts import Floats


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
