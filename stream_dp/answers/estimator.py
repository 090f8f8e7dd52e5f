"""Answers with standard errors from all measurements of a stream so far.

Answers are best linear unbiased estimates from the measurements of all releases of the stream
together (`linear_system.py`). Later periods and further releases inform earlier answers, too, so an
answer may change, and the error falls, with every publication. An answer is a function of the
published measurements, equal for every analyst.

The true counts are assumed to satisfy the equalities, and the noise to be independent and to have
the published variances. Weights are fixed numbers, so standard errors are exact, and intervals of
counts are normal ones. Shares are ratios (`joint_answers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from stream_dp.panel import window_symbols

from .linear_system import Answers, FactorCache, System
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Block, Floats, Ints
from .unknown_counts import (
    Bonds,
    EntryUnknowns,
    Key,
    PatternSum,
    WindowUnknowns,
    counter_blocks,
    key_of,
)


class Question(NamedTuple):
    """coefficients @ unknowns of a system + a constant."""

    columns: Ints
    coefficients: Floats
    constant: float


@dataclass(frozen=True, eq=False)
class StreamMeasurements:
    """The releases of a stream in a system of measurements.

    releases: all with published measurements
    cache: of the system's factor; None to compute the factor every time
    """

    releases: tuple[ReleaseMeasurements, ...]
    cache: FactorCache | None = None

    @property
    def size(self) -> int | None:
        """The declared number of people, where the stream is of all of them."""
        study, declared = self.releases[0].study, self.releases[0].declared
        return study.size if declared.where is None else None

    @property
    def _counts_all(self) -> bool:
        """Whether everybody is counted in every period: nobody comes, goes or enters late."""
        study, declared = self.releases[0].study, self.releases[0].declared
        return declared.where is None and bool(study.size or study.population.closed)

    @property
    def absent(self) -> int | None:
        """The code of 'absent'. None if nobody can be absent."""
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
            blank=None if self._counts_all else study.blank(declared),
        )

    @cached_property
    def system(self) -> System:
        """Raises Inconsistent where measurements are missing."""
        measured = [r for r in self.releases if r.window is not None]
        entries, presence = self.windows.blocks(measured)
        counters, unknowns = self._counters
        window_measured = np.concatenate([entries.measured, presence.measured])
        bonds = Bonds(self.windows, unknowns, self.absent, window_measured)
        blocks: tuple[Block, ...] = (entries, presence, *counters)
        starts = np.cumsum([0, *(block.measured.size for block in blocks)])
        return System(blocks, starts, bonds.equalities(starts), self.cache)

    @cached_property
    def _counters(self) -> tuple[Sequence[Block], dict[Key, dict[int, EntryUnknowns]]]:
        counted = [r for r in self.releases if r.totals is not None]
        return counter_blocks(counted, self.windows.size)

    def answers(self, questions: Sequence[Question]) -> Answers:
        """The best answers to questions about any releases of the stream, at any periods."""
        rows = np.repeat(np.arange(len(questions)), [q.columns.size for q in questions])
        columns = np.concatenate([np.zeros(0, np.int64), *(q.columns for q in questions)])
        values = np.concatenate([np.zeros(0), *(q.coefficients for q in questions)])
        shape = (len(questions), int(self.system.starts[-1]))
        matrix = scipy.sparse.csr_array((values, (rows, columns)), shape=shape)
        return self.system.answers(matrix, np.array([q.constant for q in questions]))

    def errors(self, answers: Answers, draws: Sequence[Sequence[Sequence[Floats]]]) -> Floats:
        """The errors of answers from this stream for other noise: (draws, n).

        draws: of each draw, by release, the noise in each message
        """
        data = np.array([self._data(noise) for noise in draws])
        return self.system.errors(answers, data)

    def _data(self, noise: Sequence[Sequence[Floats]]) -> Floats:
        """R^-1 A' D^-1 y of all blocks, (unknowns,), for measurements y that are noise alone.

        noise: by release, the noise in each message.
        """
        pairs = zip(self.releases, noise, strict=True)
        releases = [release.measuring(values) for release, values in pairs]
        entries, presence = self.windows.blocks([r for r in releases if r.window is not None])
        counted = [r for r in releases if r.totals is not None]
        counters, _ = counter_blocks(counted, self.windows.size)
        blocks: tuple[Block, ...] = (entries, presence, *counters)
        return np.concatenate([block.data for block in blocks])

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

        None if the patterns are not measured.
        """
        question = self.pattern_question(number, weights)
        return None if question is None else self.stream.answers([question])

    def pattern_question(self, number: int, weights: Floats) -> Question | None:
        """The question of `patterns`."""
        return self.pattern_questions([number], weights)[0]

    def pattern_questions(self, numbers: Sequence[int], weights: Floats) -> list[Question | None]:
        """The questions of `patterns` at several periods.

        The first window answers for the periods before its own, with any later symbols.
        """
        start, patterns = self.release.messages[0].number, self.stream.windows.sum(weights)
        questions = [self._measured(patterns, number) for number in numbers]
        for i, number in enumerate(numbers):
            if questions[i] is None and number < start:
                later = np.repeat(weights, self.stream.windows.q ** (start - number))
                questions[i] = self._measured(self.stream.windows.sum(later), start)
        return questions

    def _measured(self, patterns: PatternSum, number: int) -> Question | None:
        columns = patterns.at(number)
        measured = self.stream.system.measured[columns].all()
        return Question(columns, patterns.coefficients, patterns.constant) if measured else None

    def total(self, b: int, number: int) -> Answers:
        """The people with the event in at least b periods so far."""
        return self.stream.answers([self.total_question(b, number)])

    def total_question(self, b: int, number: int) -> Question:
        """The question of `total`."""
        entries = self.stream.entries[key_of(self.release)].get(b)
        columns = np.zeros(0, np.int64) if entries is None else entries.until(number)
        return Question(columns, np.ones(columns.size), 0.0)

    def people_question(self, number: int, *, totals: bool) -> tuple[Question, str] | None:
        """The noisy number of people in the denominator of a share at a period, and their name in
        words.

        totals: whether the share is of those who have entered. A count of the first period alone
            has all of them in a closed cohort. In an open population later entrants are missing
        """
        label, stream = self.release.study.periods.labels, self.stream
        entered = stream.entries[key_of(self.release)].get(0) if totals else None
        closed = self.release.study.population.closed
        if entered is not None and (closed or entered.covers(number)):
            at = number if entered.covers(number) else entered.first
            return self.total_question(0, at), f"who have entered by {label[at - 1]}"
        open_ = any(r.window is not None and r.window.absent is not None for r in stream.releases)
        if totals and open_:
            return self._entered_question(number)
        weights = np.ones(stream.windows.q)
        if open_:
            assert stream.absent is not None
            weights[stream.absent] = 0
        else:
            number = max(number, self.release.messages[0].number)
        counted = self.pattern_question(number, weights)
        who = "present at" if open_ else "counted at"
        return None if counted is None else (counted, f"{who} {label[number - 1]}")

    def _entered_question(self, number: int) -> tuple[Question, str] | None:
        """The people who have been present in any period so far, where a window still sees all."""
        windows, so_far = self.stream.windows, self.release.time(number)
        if so_far > windows.width:
            return None
        patterns = window_symbols(np.arange(windows.q**so_far), windows.q, so_far)
        entered = (patterns != self.stream.absent).any(axis=1).astype(float)
        question, label = self.pattern_question(number, entered), self.release.study.periods.labels
        return None if question is None else (question, f"who have entered by {label[number - 1]}")
