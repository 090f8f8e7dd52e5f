"""The public design of a survey: the sampling of people, and cells with known totals."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from .field_types import Declaration, Probability, Weight

SIMPLE = "noise and simple random sampling"
WEIGHT_KEYS = ("weight", "weights", "column", "attribute")
NO_WEIGHTS = (
    "individual design weights are refused: a weight is personal data and has no bound, so that one"
    " person could move an answer by any amount; declare [study.weights] with by and totals: public"
    " totals of strata"
)
_People = Annotated[int, Field(ge=1, le=10**10, strict=True)]


class Sampling(Declaration):
    """`[study.sampling]`: how the people of the study were drawn from a population. Public."""

    fraction: Probability | None = None
    """The share of the population that was drawn, between 0 and 1. Without this key the variance of
    sampling is not reduced."""
    design_effect: Weight | None = None
    """The variance of the design over the variance of simple random sampling; 1 by default."""

    @model_validator(mode="after")
    def _declares(self) -> Sampling:
        if self.fraction is None and self.design_effect is None:
            raise ValueError("declare fraction, design_effect or both")
        return self

    @property
    def factor(self) -> float:
        """The variance of sampling, in units of p (1 - p) / n."""
        return float((self.design_effect or 1) * (1 - (self.fraction or 0)))

    @property
    def label(self) -> str:
        """The coverage of an interval for the design, in words."""
        if self.design_effect in (None, 1):
            return SIMPLE
        return f"noise and sampling with design effect {float(self.design_effect or 1):g}"


class WeightingCells(Declaration):
    """`[study.weights]`: cells with public totals of the population, for weighted answers."""

    by: Annotated[str, Field(strict=True)]
    """The attribute whose values are the cells. Panels need a release of each value: `strata`."""
    totals: dict[str, _People]
    """The number of people of each value in the population, such as `{ north = 120000, south =
    80000 }`."""
    sample: dict[str, _People] | None = None
    """The public number of people of each value in the sample. A weighted answer of strata then
    divides by these exact numbers instead of the noisy numbers."""

    @property
    def population(self) -> int:
        """The total of all cells."""
        return sum(self.totals.values())
