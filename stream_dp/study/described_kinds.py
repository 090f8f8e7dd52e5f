"""Kinds inside a family of releases in a study file, with their sentences."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class DescribedKind(StrEnum):
    """A kind with a sentence for the reference of study files.

    about: the sentence
    """

    about: str

    def __new__(cls, name: str, about: str) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.about = about
        return kind


class Strategy(DescribedKind):
    """The measurement strategy of a window."""

    RESIDUALS = "residuals", "Each interaction of the window's periods, once."
    HISTOGRAM = "histogram", "All patterns, in every period (Bun et al. 2024, Algorithm 1)."
