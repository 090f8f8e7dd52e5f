"""Panels as they are exported against the paper's, at equal rho and relation, and what is aimed at.

    python benchmarks/paper/panels.py [--repetitions R] [NAME ...]

Each line is the root mean square error of a panel over periods and repetitions, over that of the
paper's panel, with the limit that is aimed at. The paper's form is unbiased, so of patterns its
error is known: padded histograms of equal noise. Its totals (binary trees with parts of rho in
proportion to the cubes of their levels, all of rho) are repeated with simulated noise. Errors of
estimates are known, too, and those that the same noise gives are a control: what chance adds to
them is subtracted from the panel's mean squares of patterns; beside it is the standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from panel_cases import CASES, Case
from paper_trees import Trees

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import Joint, best_window_share
from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import Symbols, window_codes
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import CounterKind

Floats = NDArray[np.float64]
Measured = tuple[str, float, float]  # a quantity, its ratio, the standard error of that


class Line(NamedTuple):
    quantity: str
    ratio: float
    limit: float
    error: float

    @property
    def met(self) -> bool:
        return self.ratio <= self.limit

    def __str__(self) -> str:
        word = "met" if self.met else "MISSED"
        aim = "" if np.isinf(self.limit) else f"  at most {self.limit:.2f}  {word}"
        chance = f"{self.error:>8.4f}" if self.error else " " * 8
        return f"  {self.quantity:<34}{self.ratio:>8.4f}{chance}{aim}"


def window_of(case: Case, truth: Symbols, share: Fraction = Fraction(1)) -> FixedWindow:
    return FixedWindow(
        values=tuple(range(case.q)),
        width=case.width,
        horizon=truth.shape[1],
        rho=Fraction(case.rho) * share,
        neighbours=case.neighbours,
        rows=case.rows(truth) if case.blank is None else None,
        absent=case.absent,
        blank=case.blank,
    ).best(padded=False)


def totals_of(case: Case, truth: Symbols, share: Fraction = Fraction(1)) -> Cumulative:
    return Cumulative(
        horizon=truth.shape[1],
        rho=Fraction(case.rho) * share,
        neighbours=case.neighbours,
        rows=case.rows(truth) if case.blank is None or share == 1 else None,
        counter=CounterKind.TREE if share == 1 else None,
    )


def histogram(codes: NDArray[np.int64], bins: int) -> Floats:
    return np.bincount(codes, minlength=bins).astype(float)


def rises_of(truth: Symbols) -> list[NDArray[np.int64]]:
    """What a cumulative mechanism takes at every period, of symbol 1."""
    n, horizon = truth.shape
    happened = truth == 1
    totals = happened.cumsum(axis=1)
    rises = [np.bincount(totals[happened[:, t], t], minlength=horizon + 1) for t in range(horizon)]
    return [np.append(one[1:], n if t == 0 else 0) for t, one in enumerate(rises)]


def sums_of(truth: Symbols) -> Floats:
    """S_0..S_T at every period: (T, T + 1)."""
    totals, horizon = (truth == 1).cumsum(axis=1), truth.shape[1]
    counts = [np.bincount(totals[:, t], minlength=horizon + 1) for t in range(horizon)]
    return np.array(counts)[:, ::-1].cumsum(axis=1)[:, ::-1].astype(float)


class Windows(NamedTuple):
    """Errors of panels and of estimates, (repetitions, periods, patterns) each."""

    panel: Floats
    estimates: Floats


def codes_after(
    columns: Symbols, before: NDArray[np.int64], form: FixedWindow
) -> NDArray[np.int64]:
    """The rows' last k symbols with new columns: all of them at t = k, later one."""
    if columns.shape[1] > 1 or not before.size:
        return window_codes(columns, form.q)
    return before % form.overlaps * form.q + columns[:, 0]


def repeated_window(form: FixedWindow, truth: Symbols, repetitions: int) -> Windows:
    counts = [form.counts(truth, t) for t in range(1, form.horizon + 1)]
    source = SeededNoise(34)
    panel = np.zeros((repetitions, form.releases, form.bins))
    estimates = np.zeros((repetitions, form.releases, form.measured.size))
    for r in range(repetitions):
        state, codes = form.init(), np.zeros(0, np.int64)
        for t, true in enumerate(counts, 1):
            state, step = form.step(state, true, source.draw(form.demand(t)))
            if step is None:
                continue
            codes = codes_after(step.columns, codes, form)
            own = true[: form.bins]
            panel[r, t - form.width] = histogram(codes, form.bins) - form.padding - own
            estimates[r, t - form.width] = step.estimates.values - own[form.measured]
    return Windows(panel, estimates)


def ratio(
    form: FixedWindow, errors: Windows, weights: Floats, periods: slice = slice(None)
) -> tuple[float, float]:
    """Root mean square error of some answers over the paper's, with the estimates as control, and
    its standard error.

    weights: (answers, q^k)
    """
    own, control = errors.panel @ weights.T, errors.estimates @ weights[:, form.measured].T
    when = range(form.width, form.horizon + 1)[periods]
    theory = [form.functional(t, row)[1] for t in when for row in weights]
    more = (own[:, periods] ** 2 - control[:, periods] ** 2).mean(axis=(1, 2))
    paper = paper_variance(form) * (weights**2).sum(axis=1).mean()
    value = float(np.sqrt((more.mean() + np.mean(theory)) / paper))
    return value, float(more.std() / len(more) ** 0.5 / paper / (2 * value))


def worst(errors: Floats) -> float:
    """The root mean square error of the worst cell, which the other half of repetitions chose.

    errors: (repetitions, ..); the largest of many that are measured would be too large by chance
    """
    squares = errors.reshape(len(errors), -1) ** 2
    halves = [squares[i::2].mean(axis=0) for i in (0, 1)]
    chosen = halves[0][halves[1].argmax()], halves[1][halves[0].argmax()]
    return float(np.sqrt(np.mean(chosen)))


def paper_variance(form: FixedWindow) -> float:
    """Of a pattern of the paper's panel."""
    return form.releases / float(form.rho) / (1 + (form.neighbours == "add_remove"))


def window_lines(case: Case, truth: Symbols, repetitions: int) -> Iterator[Measured]:
    form = window_of(case, truth)
    errors = repeated_window(form, truth, repetitions)
    if case.absent is not None:
        here = np.arange(form.bins) % form.q != case.absent
        there = (truth != case.absent).sum(axis=0)[form.width - 1 :]
        off = errors.panel[:, :, here].sum(axis=2).mean(axis=0) / there
        yield "present, furthest from 1", float(np.abs(off).max()), 0.0
        return
    patterns = np.eye(form.bins)
    digits = np.arange(form.bins)[:, None] // form.q ** np.arange(form.width) % form.q
    yield "patterns", *ratio(form, errors, patterns)
    yield "worst pattern", worst(errors.panel) / float(np.sqrt(paper_variance(form))), 0.0
    yield "at least 1", *ratio(form, errors, (digits == 1).any(axis=1)[None].astype(float))
    if form.q > 2:
        rarest = np.bincount(truth.ravel(), minlength=form.q).argmin()
        seen = (digits == rarest).any(axis=1)[None].astype(float)
        yield "at least 1 in the rarest", *ratio(form, errors, seen)
    if case.jump is not None:
        later = slice(case.jump - form.width + 3, None)
        yield "patterns, 3 periods later", *ratio(form, errors, patterns, later)


def repeated_totals(form: Cumulative, truth: Symbols, repetitions: int) -> Floats:
    """Mean squares of the errors of the panel's sums S_0..S_T at every period: (T, T + 1)."""
    source, rises, sums = SeededNoise(3), rises_of(truth), sums_of(truth)
    squares = np.zeros(sums.shape)
    for _ in range(repetitions):
        state = form.init()
        for t, true in enumerate(rises, 1):
            state, _ = form.step(state, true, source.draw(form.demand(t)))
            squares[t - 1] += (state.sums - sums[t - 1]) ** 2
    return squares / repetitions


def cells_of(squares: Floats, first: int) -> Floats:
    """Those of S_b at t, t >= first and 1 <= b <= t."""
    t, b = np.indices(squares.shape)
    return squares[(b >= 1) & (b <= t + 1) & (t + 1 >= first)]


def joint_lines(case: Case, truth: Symbols, repetitions: int) -> Iterator[Measured]:
    paper = window_of(case, truth)
    totals_alone = replace(totals_of(case, truth), counter=None)
    share = best_window_share(paper, totals_alone)
    form = Joint(window_of(case, truth, share), totals_of(case, truth, 1 - share), (1,))
    window = form.window
    rises, sums, source = rises_of(truth), sums_of(truth), SeededNoise(7)
    windows = [window.counts(truth, t) for t in range(1, form.horizon + 1)]
    patterns = np.zeros((repetitions, window.releases, window.measured.size))
    totals = np.zeros(sums.shape)
    for r in range(repetitions):
        state, codes = form.init(), np.zeros(0, np.int64)
        for t in range(1, form.horizon + 1):
            true = np.concatenate([windows[t - 1], rises[t - 1]])
            state, step = form.step(state, true, source.draw(form.demand(t)))
            if step is None:
                continue
            codes = codes_after(step.columns, codes, window)
            off = histogram(codes, window.bins) - windows[t - 1][: window.bins]
            patterns[r, t - window.width] = off[window.measured]
            totals[t - 1] += (state.totals.sums - sums[t - 1]) ** 2 / repetitions
    scale = float(np.sqrt(paper_variance(paper)))
    yield "joint: patterns", float(np.sqrt((patterns**2).mean())) / scale, 0.0
    yield "joint: worst pattern", worst(patterns) / scale, 0.0
    trees = repeated_totals(Trees.like(totals_of(case, truth), 3), truth, repetitions)
    own, others = (cells_of(squares, case.width) for squares in (totals, trees))
    yield "joint: totals", float(np.sqrt(own.mean() / others.mean())), 0.0
    yield "joint: worst total", float(np.sqrt(own.max() / others.max())), 0.0
    own, others = (squares[case.width - 1 :, 1] for squares in (totals, trees))
    yield "joint: total at least 1", float(np.sqrt(own.mean() / others.mean())), 0.0


def lines(case: Case, repetitions: int) -> Iterator[Line]:
    """All quantities; those that nothing is aimed at have no limit."""
    truth, some = case.truth(), max(20, round(case.share * repetitions))
    measured = list(window_lines(case, truth, some))
    if "joint: totals" in case.limits:
        measured += joint_lines(case, truth, some)
    for quantity, value, error in measured:
        yield Line(quantity, value, case.limits.get(quantity, np.inf), error)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--repetitions", type=int, default=200)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in CASES]:
        sys.exit(f"{unknown[0]}: there are {', '.join(CASES)}")
    for name in options.names or CASES:
        print(f"{name}:")
        for line in lines(CASES[name], options.repetitions):
            print(line, flush=True)


if __name__ == "__main__":
    main()
