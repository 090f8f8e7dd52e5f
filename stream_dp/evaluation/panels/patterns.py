"""Judge of patterns: what a panel and its estimates say of the last periods, against the truth.

raw: the release's own unbiased estimates. panel: rows of the panel that answer the query, less
the padding's where there is any. undebiased: the panel's plain share times the people.

The padding fills every pattern of k symbols evenly, and is taken to fill wider ones evenly. In an
open population nothing is said of those who are absent throughout the window: that pattern is not
judged, and shares are of those present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from stream_dp.continual import FixedWindow
from stream_dp.panel import Symbols

from .queries import JudgedQuery, judged_queries, narrowed, pattern_histograms, widest
from .trial import Floats, Ints, QueryLabel, Steps, Trial, one_trial


@dataclass(frozen=True, eq=False)
class PatternsJudge:
    """form: the window mechanism; queries: the bins first, as many as `listed`; left_out: the
    pattern that is not judged; histograms: true, (q^k,) for t = k..T; truth: (queries, R); people:
    how many there are; widest: the longest query in periods; part: see `PanelJudge`."""

    form: FixedWindow
    queries: tuple[JudgedQuery, ...]
    left_out: int | None
    histograms: tuple[Ints, ...]
    truth: Floats
    people: int
    widest: int
    part: str = ""

    kind: ClassVar[str] = "window"

    @property
    def width(self) -> int:
        return self.form.width

    @property
    def first(self) -> int:
        return self.form.width

    @property
    def padding(self) -> int:
        return self.form.padding

    @property
    def bound(self) -> float:
        return self.form.error_bound

    @property
    def answers(self) -> tuple[str, ...]:
        """Without padding, and with as many rows as people, plain shares are the panel's counts."""
        plain = self.form.padded or self.left_out is not None or self.form.rows != self.people
        return ("raw", "panel", "undebiased") if plain else ("raw", "panel")

    @property
    def labels(self) -> tuple[QueryLabel, ...]:
        return tuple((query.text, query.kind, query.width) for query in self.queries)

    @cached_property
    def judged(self) -> Ints:
        """The codes of the patterns that are judged."""
        found: Ints = self.form.measured[self.form.measured != self.left_out]
        return found

    @cached_property
    def _variances(self) -> Floats:
        """(R, judged patterns)."""
        periods = range(self.first, self.form.horizon + 1)
        return np.array([self.form.design.bin_variances(t)[self.judged] for t in periods])

    @property
    def cell_theory(self) -> float:
        return math.sqrt(self._variances.mean())

    @property
    def independent(self) -> bool:
        return self.form.strategy == "histogram"

    @property
    def theory(self) -> Floats:
        """NaN for queries wider than k, or that ask for the pattern that is not measured."""
        form, found = self.form, np.full(self.truth.shape, np.nan)
        for i, query in enumerate(self.queries):
            if query.kind == "bin":
                found[i] = np.sqrt(self._variances[:, i])
            elif query.width <= form.width:
                weights = query.lifted(form.bins).astype(float)
                if form.contrasts.unseen is None or not weights[form.contrasts.unseen]:
                    variances = [
                        form.functional(t, weights)[1] for t in range(self.first, form.horizon + 1)
                    ]
                    found[i] = np.sqrt(variances)
        return np.where(np.isnan(self.truth), np.nan, found)

    def judge(self, steps: Steps) -> Trial:
        form, q = self.form, self.form.q
        errors = np.full((len(self.answers), *self.truth.shape), np.nan)
        squares, worst = np.zeros(len(self.answers)), np.zeros(len(self.answers))
        codes = np.zeros(0, np.int64)
        for t, step in steps:
            codes = codes if codes.size else np.zeros(step.columns.shape[0], np.int64)
            for column in step.columns.T:
                codes = (codes * q + column) % q**self.widest
            held = np.bincount(codes, minlength=min(q**t, q**self.widest))
            told = np.full(form.bins, np.nan)
            told[form.measured] = step.estimates.values[: form.measured.size]
            place = t - self.first
            bins = self._bins(told, narrowed(held, q, form.width), place)
            off = (bins - self.histograms[place])[:, self.judged]
            squares += (off**2).sum(axis=1)
            worst = np.maximum(worst, np.abs(off).max(axis=1))
            errors[:, :, place] = self._answer(bins, held, t) - self.truth[:, place]
        cells = np.full(len(self.answers), self.judged.size * len(steps))
        return one_trial(errors, cells, squares, worst, steps)

    def _bins(self, told: Floats, held: Ints, place: int) -> Floats:
        """(answers, q^k): what each answer says of every pattern."""
        padded = np.zeros(self.form.bins)
        padded[self.form.measured] = self.form.padding
        found: list[Floats] = [told, held - padded]
        if len(self.answers) > 2:
            found.append(np.asarray(held * self._scale(held, place), np.float64))
        return np.stack(found)

    def _scale(self, held: Ints, place: int) -> float:
        """People for each row: of those present, in an open population."""
        if self.left_out is None:
            return self.people / max(int(held.sum()), 1)
        true = self.histograms[place]
        present = true.sum() - true[self.left_out]
        return float(present / max(int(held.sum() - held[self.left_out]), 1))

    def _answer(self, bins: Floats, held: Ints, t: int) -> Floats:
        """(answers, queries): what each answer says at t."""
        form = self.form
        found = np.full((len(self.answers), len(self.queries)), np.nan)
        listed = sum(query.kind == "bin" for query in self.queries)
        found[:, :listed] = bins[:, self.judged[:listed]]
        for i, query in enumerate(self.queries[listed:], listed):
            if query.width <= form.width:
                found[:, i] = bins[:, query.lifted(form.bins)].sum(axis=1)
            elif query.width <= t:
                count = int(narrowed(held, form.q, query.width)[query.mask].sum())
                padded = form.padding * form.bins * query.patterns / form.q**query.width
                found[1, i] = count - padded
                if len(self.answers) > 2:
                    place = t - self.first
                    found[2, i] = count * self._scale(narrowed(held, form.q, form.width), place)
        return found


def patterns_judge(
    form: FixedWindow,
    attribute: str,
    code: int,
    symbols: Symbols,
    *,
    absent: int | None = None,
    wide: bool = True,
    part: str = "",
) -> PatternsJudge:
    """The judge of a window mechanism on a true panel.

    code: the symbol of the named queries; absent: the code of the symbol whose pattern of k is
    left out, also where a mechanism measures it; wide: ask queries wider than k as well.
    """
    longest = widest(form) if wide else form.width
    gone = None if absent is None else absent * (form.bins - 1) // (form.q - 1)
    queries = judged_queries(form, attribute, code, form.measured[form.measured != gone], longest)
    found = pattern_histograms(symbols, form.q, form.width, longest)
    truth = np.full((len(queries), form.design.releases), np.nan)
    for i, query in enumerate(queries):
        for p, histogram in enumerate(found):
            if query.width <= p + form.width:
                truth[i, p] = narrowed(histogram, form.q, query.width)[query.mask].sum()
    true = tuple(narrowed(histogram, form.q, form.width) for histogram in found)
    return PatternsJudge(form, queries, gone, true, truth, symbols.shape[0], longest, part)
