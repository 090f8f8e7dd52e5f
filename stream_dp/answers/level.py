"""The level of intervals."""

from statistics import NormalDist

LEVEL = 0.95
QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)
