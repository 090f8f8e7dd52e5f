"""The trial plan of each release of a study on a known panel: its mechanism, counts and judges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual import AnyMechanism, Cumulative, FixedWindow, mechanism
from stream_dp.errors import UserError
from stream_dp.panel import Symbols
from stream_dp.study import CumulativeRelease, JointRelease, Release, Study

from .patterns import PatternsJudge, patterns_judge
from .totals import total_increments, totals_judge
from .trial import Ints, TrialPlan

# By attribute, the symbol codes of a known panel with the missing rule applied, (people, T).
Truth = Mapping[str, Symbols]


def count_people(study: Study, truth: Truth) -> int:
    """The number of people. Raises UserError where the panel does not fit the study."""
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
    """What a release sees of a known panel: codes in its alphabet, (people, its periods)."""
    alphabet = study.alphabet(release)
    codes: NDArray[np.uint8] = np.zeros(1, np.uint8)
    for name, part in zip(alphabet.attributes, alphabet.parts, strict=True):
        codes = (codes * np.uint8(len(part)) + truth[name]).astype(np.uint8)
    for name, value in (release.where or {}).items():
        assert alphabet.absent is not None
        inside = truth[name] == study.attributes[name].codes[value]
        codes = np.where(inside, codes, np.uint8(alphabet.absent))
    first, last = study.span(release)
    return codes[:, first - 1 : last]


def named_symbol(study: Study, release: Release) -> int:
    """The symbol that named queries are about: the last one that is an answer."""
    alphabet = study.alphabet(release)
    return len(alphabet.values) - (1 if alphabet.absent is None else 2)


def is_open(release: Release, absent: int | None) -> bool:
    """Whether people may come and go, so that those who are absent throughout are not judged."""
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
    """The trial plan of a release.

    symbols: what the release sees of the known panel.
    wide: whether queries wider than the window are asked as well.
    leave_out_absent: whether the pattern of absences is not judged; None to leave it out where
        people may come and go.
    override: the mechanism; None for the one that the release declares.
    """
    simulated, alphabet = override or mechanism(study, release), study.alphabet(release)
    if leave_out_absent is None:
        leave_out_absent = is_open(release, alphabet.absent)

    def window_judge(window: FixedWindow, part: str = "") -> PatternsJudge:
        return patterns_judge(
            window,
            symbols,
            attribute=alphabet.name,
            code=named_symbol(study, release),
            absent=alphabet.absent if leave_out_absent else None,
            wide=wide,
            part=part,
        )

    if isinstance(simulated, FixedWindow):
        judge = window_judge(simulated)
        return TrialPlan(simulated, _window_counts(judge, symbols), (judge,))
    assert isinstance(release, CumulativeRelease | JointRelease)
    events, q = study.event_codes(release), len(alphabet.values)
    increments = total_increments(symbols, events, alphabet.absent)
    if isinstance(simulated, Cumulative):
        sums = totals_judge(simulated, symbols, events=events, q=q)
        return TrialPlan(simulated, increments, (sums,))
    patterns = window_judge(simulated.window, part=" patterns")
    sums = totals_judge(
        simulated.totals,
        symbols,
        events=events,
        q=q,
        own_panel=False,
        skip=simulated.window.measured.size,
        part=" totals",
    )
    counts = tuple(map(np.append, _window_counts(patterns, symbols), increments))
    return TrialPlan(simulated, counts, (patterns, sums))


def _window_counts(judge: PatternsJudge, symbols: Symbols) -> tuple[Ints, ...]:
    """What a window mechanism takes at every period."""
    own = judge.mechanism
    return tuple(own.counts(symbols, t) for t in range(1, own.horizon + 1))
