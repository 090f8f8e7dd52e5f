"""The plan of a release's trials on a known panel: its mechanism, true counts and judges.

A judge compares a class of answers with the truth (`panel_judge.py`): of patterns, or of totals; a
joint release has both. CONFIDENTIAL: a plan contains true counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.cumulative.cumulative import total_increments
from stream_dp.continual.mechanism_interface import Mechanism, Step
from stream_dp.continual.mechanisms import AnyMechanism, mechanism, patterns_part, totals_part
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import UserError
from stream_dp.panel import Symbols
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Release, Study

from .panel_judge import PatternsJudge, TotalsJudge, patterns_judge, totals_judge
from .trial import Ints, Trial

# By attribute, the symbol codes of a known panel with the missing rule applied, (people, T).
Truth = Mapping[str, Symbols]
PanelJudge = PatternsJudge | TotalsJudge


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """The common parts of all repetitions of a release."""

    mechanism: Mechanism[Any]
    # The input of the mechanism at every period, from the first.
    counts: tuple[Ints, ...]
    judges: tuple[PanelJudge, ...]

    def simulated_steps(self, seed: int) -> list[tuple[int, Step]]:
        """Steps the mechanism with simulated noise. Returns the steps with their periods."""
        source, state = SeededNoise(seed), self.mechanism.init()
        steps = []
        for t, counts in enumerate(self.counts, 1):
            state, step = self.mechanism.step(state, counts, source.draw(self.mechanism.demand(t)))
            if step is not None:
                steps.append((t, step))
        return steps

    def run(self, seed: int) -> tuple[Trial, ...]:
        """Runs a repetition. Returns the trial of every judge."""
        steps = self.simulated_steps(seed)
        return tuple(judge.judge(steps) for judge in self.judges)


def count_people(study: Study, truth: Truth) -> int:
    """Counts the people of a panel. Raises UserError if the panel does not fit the study."""
    problems = []
    used = {n for r in study.releases for n in (*r.attributes, *(r.where or {}))}
    for name in sorted(used):
        if name not in truth:
            problems.append(f"truth: attribute '{name}' is missing")
            continue
        symbols, periods = truth[name], study.periods.count
        if symbols.ndim != 2 or symbols.shape[1] != periods or symbols.shape[0] == 0:
            problems.append(
                f"truth: attribute '{name}' must have a row a person, {periods} columns"
            )
        elif symbols.max() >= len(study.attributes[name].symbols):
            problems.append(f"truth: attribute '{name}' has a code that is none of its symbols")
    sizes = {truth[name].shape[0] for name in used if name in truth}
    if len(sizes) > 1:
        problems.append("truth: the attributes have different numbers of people")
    elif sizes and study.size is not None and sizes != {study.size}:
        problems.append(
            f"truth: the study declares {study.size} people, the panel has {max(sizes)}"
        )
    if problems:
        raise UserError(problems)
    return int(max(sizes))


def visible_symbols(study: Study, release: Release, truth: Truth) -> Symbols:
    """Encodes a known panel for a release: codes in its alphabet, (people, its periods)."""
    alphabet = study.alphabet(release)
    codes: NDArray[np.uint8] = np.zeros(1, np.uint8)
    for name, values in zip(alphabet.attributes, alphabet.symbols, strict=True):
        codes = (codes * np.uint8(len(values)) + truth[name]).astype(np.uint8)
    for name, value in (release.where or {}).items():
        assert alphabet.absent is not None
        inside = truth[name] == study.attributes[name].codes[value]
        codes = np.where(inside, codes, np.uint8(alphabet.absent))
    first, last = study.span(release)
    return codes[:, first - 1 : last]


def named_symbol(study: Study, release: Release) -> int:
    """Returns the symbol of the named queries: the last answer of the alphabet."""
    alphabet = study.alphabet(release)
    return len(alphabet.values) - (1 if alphabet.absent is None else 2)


def is_open(release: Release, absent: int | None) -> bool:
    """Tells whether the population is open: permanent absence is not judged."""
    return absent is not None and release.rows is not None


def trial_plan(
    study: Study,
    release: Release,
    symbols: Symbols,
    *,
    wide: bool = True,
    leave_out_absent: bool | None = None,
    override: AnyMechanism | None = None,
) -> TrialPlan:
    """Makes the trial plan of a release.

    symbols: the result of `visible_symbols`.
    wide: whether queries wider than the window are asked as well.
    leave_out_absent: whether the pattern of absences is not judged; None: left out in an open
        population.
    override: the mechanism; None for the declared mechanism of the release.
    """
    simulated, alphabet = override or mechanism(study, release), study.alphabet(release)
    if leave_out_absent is None:
        leave_out_absent = is_open(release, alphabet.absent)

    def window_judge(window: FixedWindow, suffix: str = "") -> PatternsJudge:
        return patterns_judge(
            window,
            symbols,
            attribute=alphabet.name,
            code=named_symbol(study, release),
            absent=alphabet.absent if leave_out_absent else None,
            wide=wide,
            suffix=suffix,
        )

    window, totals = patterns_part(simulated), totals_part(simulated)
    if totals is None:
        assert window is not None
        judge = window_judge(window)
        return TrialPlan(simulated, _window_counts(judge, symbols), (judge,))
    assert release.totals is not None
    events, q = study.event_codes(release.totals), len(alphabet.values)
    increments = total_increments(symbols, events, alphabet.absent)
    if window is None:
        sums = totals_judge(totals, symbols, events=events, q=q)
        return TrialPlan(simulated, increments, (sums,))
    patterns = window_judge(window, suffix=" patterns")
    sums = totals_judge(
        totals,
        symbols,
        events=events,
        q=q,
        own_panel=False,
        skip=window.measured.size,
        suffix=" totals",
    )
    counts = tuple(map(np.append, _window_counts(patterns, symbols), increments))
    return TrialPlan(simulated, counts, (patterns, sums))


def _window_counts(judge: PatternsJudge, symbols: Symbols) -> tuple[Ints, ...]:
    """Returns the input of a window mechanism at every period."""
    mechanism = judge.mechanism
    return tuple(mechanism.counts(symbols, t) for t in range(1, mechanism.horizon + 1))
