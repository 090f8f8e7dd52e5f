"""Answers from everything that was measured of a stream so far, each with its standard error.

They are best linear unbiased estimates from the measurements of all releases of the stream
together (`system.py`). Later periods and other releases say something about earlier answers too,
so an answer may change, and its error falls, with every publication; it is a function of what is
published, the same for everybody.

The true counts are assumed to satisfy the equalities, and the noise to be independent and to have
the published variances. Weights are fixed numbers, so standard errors are exact, and intervals of
counts are normal ones. A share of a noisy number of people is a ratio: its standard error is that
of the first order, its interval that of Fieller 1954, which covers as a normal interval does
however noisy the number is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from stream_dp.errors import UserError

from .blocks import Block, CounterBlock, Floats, Ints
from .kept import KeptFactor
from .measurements import ReleaseMeasurements
from .system import Answers, System
from .totals import Bonds, EntryUnknowns, Key, counter_blocks, key_of, on_unknowns
from .windows import WindowUnknowns


@dataclass(frozen=True, eq=False)
class StreamMeasurements:
    """The releases of one stream as one system of measurements.

    releases: those that anything is published of
    kept: where the system's factor is kept, None where it is not
    """

    releases: tuple[ReleaseMeasurements, ...]
    kept: KeptFactor | None = None

    @property
    def size(self) -> int | None:
        """The declared number of people, where the stream is of all of them."""
        study, declared = self.releases[0].study, self.releases[0].declared
        return study.size if declared.where is None else None

    @property
    def absent(self) -> int | None:
        """The code of 'absent', None where nobody can be."""
        return self.releases[0].study.alphabet(self.releases[0].declared).absent

    @cached_property
    def windows(self) -> WindowUnknowns:
        study, declared = self.releases[0].study, self.releases[0].declared
        widths = [r.window.width for r in self.releases if r.window is not None]
        return WindowUnknowns(
            q=len(study.alphabet(declared).values),
            width=max(widths, default=1),
            periods=study.periods.count,
            people=self.size,
            blank=study.blank(declared) if self.size is None else None,
        )

    @cached_property
    def system(self) -> System:
        """Raises Inconsistent where measurements are missing."""
        measured = [r for r in self.releases if r.window is not None]
        entries, there = self.windows.blocks(measured)
        counters, unknowns = self._counters
        known = np.concatenate([entries.measured, there.measured])
        bonds = Bonds(self.windows, unknowns, self.absent, known)
        blocks: tuple[Block, ...] = (entries, there, *counters)
        starts = np.cumsum([0, *(block.measured.size for block in blocks)])
        return System(blocks, starts, bonds.equalities(starts), self.kept)

    @cached_property
    def _counters(self) -> tuple[Sequence[CounterBlock], dict[Key, dict[int, EntryUnknowns]]]:
        counted = [r for r in self.releases if r.totals is not None]
        return counter_blocks(counted, self.windows.entries + self.windows.there)

    @property
    def entries(self) -> dict[Key, dict[int, EntryUnknowns]]:
        """The unknowns of totals, by event and first period, then by b."""
        return self._counters[1]


@dataclass(frozen=True, eq=False)
class StreamEstimator:
    """Answers about a release of a stream from the measurements of all its releases."""

    stream: StreamMeasurements
    release: ReleaseMeasurements

    def patterns(self, number: int, weights: Floats) -> Answers | None:
        """weights @ the histogram of the last j symbols at a period, for (q^j,).

        None where nobody measured it.
        """
        asked = self.stream.windows.question(number, weights)
        columns, coefficients = on_unknowns(self.stream.windows, asked)
        if not self.stream.system.measured[columns].all():
            return None
        return self._answer(columns, coefficients, asked.constant)

    def total(self, b: int, number: int) -> Answers | None:
        """The people with the event in at least b periods so far; None where nobody measured it."""
        own = self.stream.entries[key_of(self.release)].get(b)
        columns = np.zeros(0, np.int64) if own is None else own.until(number)
        return self._answer(columns, np.ones(columns.size), 0.0)

    def entered(self, number: int) -> tuple[Answers | None, int]:
        """Those who have been there by a period, and the period.

        It is the given one or, where people are counted once only, the first.
        """
        own = self.stream.entries[key_of(self.release)].get(0)
        if own is None:
            return None, number
        at = number if own.covers(number) else own.first
        return self.total(0, at), at

    def _answer(self, columns: Ints, coefficients: Floats, constant: float) -> Answers:
        system = self.stream.system
        shape = (1, int(system.starts[-1]))
        question = csr_array((coefficients, (np.zeros_like(columns), columns)), shape=shape)
        return system.answers(question, np.array([constant]))


def number_of_people(
    stream: StreamMeasurements,
    answers: StreamEstimator,
    release: ReleaseMeasurements,
    number: int,
    *,
    totals: bool,
) -> tuple[Answers, str] | None:
    """The noisy number of people that a share at a period is of, and who they are, in words."""
    label = release.study.periods.labels
    if totals:
        entered, at = answers.entered(number)
        if entered is not None:
            return entered, f"who have entered by {label[at - 1]}"
    open_ = any(r.window is not None and r.window.absent is not None for r in stream.releases)
    weights = np.ones(stream.windows.q)
    if open_:
        assert stream.absent is not None
        weights[stream.absent] = 0
    counted = answers.patterns(number, weights)
    who = "present at" if open_ else "counted at"
    return None if counted is None else (counted, f"{who} {label[number - 1]}")


def fieller_share(
    value: Answers, people: Answers, z: float
) -> tuple[float, float, tuple[float, float]]:
    """The share value / people, its standard error to the first order, Fieller's interval (1954).

    The interval is of all s for which value - s people lies within z of its standard errors of 0.
    Raises UserError where the number of people is not clearly above 0, so that this is no interval.
    """
    n, v = people.value, value.value
    nn, vn, vv = people.variance, float(value.covariance(people)[0, 0]), value.variance
    if n <= z * math.sqrt(nn):
        raise UserError(
            "share: the noisy number of people is not clearly positive; ask for --count"
        )
    share = v / n
    error = math.sqrt(value.minus(people, share).variance) / n
    a, b, c = n * n - z * z * nn, n * v - z * z * vn, v * v - z * z * vv
    reach = math.sqrt(max(0.0, b * b - a * c))
    return share, error, ((b - reach) / a, (b + reach) / a)
