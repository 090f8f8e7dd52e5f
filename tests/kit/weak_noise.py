"""Noise with less variance than is declared, which an audit is to find."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from stream_dp.privacy.noise import Draw, NoiseSource, SystemNoise


class WeakNoise(SystemNoise):
    """The product's noise, with less variance than a mechanism demands.

    share: of the demanded variance.
    """

    def __init__(self, source: NoiseSource, share: Fraction) -> None:
        self.source, self.share = source, share

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        return self.source.draw([(variance * self.share, size) for variance, size in demand])
