"""The certificate of published sizes: the measurements of every level and their cost."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stream_dp.privacy.noise import exact_variance, geometric_variance
from stream_dp.study.place_releases import SizesMethod

from .certificate import Certificate, Details, Exact, Text, WholeNumber

SIZES_TYPE = "stream-dp.sizes"


class LevelCertificate(BaseModel):
    """The statement about a level.

    name: `all`, or the column of its regions.
    regions: the number of regions.
    method: the measurement.
    rho: the cost; with double-geometric noise at most 1e-12 too large.
    noise: of an entry.
    parameter: the variance of a discrete Gaussian, or the decay of double-geometric noise.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    name: Text
    regions: WholeNumber
    method: SizesMethod
    rho: Exact
    noise: Literal["discrete Gaussian", "double-geometric"]
    parameter: Exact

    @property
    def variance(self) -> float:
        """The variance of the noise in an entry."""
        if self.noise == "discrete Gaussian":
            return exact_variance(self.parameter)
        return geometric_variance(self.parameter)


class SizesCertificate(Certificate):
    """The certificate of sizes.

    regions: the columns of regions, from the top level down.
    largest: the public cap of sizes.
    groups: the public number of groups.
    rows: of the table of sizes.
    measured: the number of noisy values that are published.
    levels: from the top down.
    notes: public numbers about the fit.
    """

    type: Literal["stream-dp.sizes"] = "stream-dp.sizes"
    regions: tuple[Text, ...]
    largest: WholeNumber
    groups: WholeNumber
    rows: WholeNumber
    measured: WholeNumber
    levels: tuple[LevelCertificate, ...] = Field(min_length=1, max_length=9)
    notes: Details

    @property
    def published_rows(self) -> int:
        return self.rows

    @property
    def synthetic_rows(self) -> tuple[int | None, int | None]:
        return None, self.groups
