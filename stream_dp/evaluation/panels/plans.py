"""From a study and a known panel to what is repeated: each release's mechanism, counts, judges."""

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
    """What a release sees of a true panel: codes in its alphabet, (people, its periods)."""
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
    """May people come and go, so that those who are absent throughout are not judged?"""
    return absent is not None and release.rows is not None


def trial_plan(
    study: Study,
    release: Release,
    symbols: Symbols,
    *,
    wide: bool = True,
    open_: bool | None = None,
    made: AnyMechanism | None = None,
) -> TrialPlan:
    """What is repeated of a release on what it sees.

    wide: ask queries wider than the window as well; open_: whether the pattern of absences is
    left out, by default where the release does not measure it; made: the mechanism, by default
    the one that the release declares.
    """
    made, alphabet = made or mechanism(study, release), study.alphabet(release)
    open_ = is_open(release, alphabet.absent) if open_ is None else open_
    absent, q = alphabet.absent if open_ else None, len(alphabet.values)
    word = alphabet.name, named_symbol(study, release)
    if isinstance(made, FixedWindow):
        judge = patterns_judge(made, *word, symbols, absent=absent, wide=wide)
        return TrialPlan(made, _padded(judge), (judge,))
    assert isinstance(release, CumulativeRelease | JointRelease)
    events = study.event_codes(release)
    counts = total_increments(symbols, events, alphabet.absent)
    if isinstance(made, Cumulative):
        return TrialPlan(made, counts, (totals_judge(made, events, symbols, q),))
    window = patterns_judge(made.window, *word, symbols, absent=absent, wide=wide, part=" patterns")
    skip = made.window.measured.size
    sums = totals_judge(made.totals, events, symbols, q, own=False, skip=skip, part=" totals")
    both = tuple(map(np.append, _padded(window), counts))
    return TrialPlan(made, both, (window, sums))


def _padded(judge: PatternsJudge) -> tuple[Ints, ...]:
    """The histograms of all periods, empty before t = k."""
    none = np.zeros(judge.form.bins, np.int64)
    return (*[none] * (judge.form.width - 1), *judge.histograms)
