"""The kind `match` on people: the four steps with a compressed domain between two phases.

Source: McKenna, Miklau, Sheldon 2021, "Winning the NIST Contest" (arXiv 2108.04978). This version
measures interactions instead of marginals, as exact integers, takes no query from data, and fits
the models of the other kinds of people. Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Never

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import MatchRelease

from ..data.domain import Int64Array
from ..rounds.loop import AdaptiveFit, AdaptiveMethod, fit_adaptively
from ..rounds.phases import NoisyAnswers
from ..synthesizer import FitContext, FitTranscript
from .compress.compression import Compression
from .compress.encoding import Encoding
from .known import Known
from .match_fit import MatchFit
from .measure.residual_counts import Columns, Residuals
from .people_synthesizer import fit_plan
from .people_table import People
from .select.match_plan import MatchPlan


def fit_match(people: People, release: MatchRelease, context: FitContext) -> MatchFit:
    """Fits a table of people in two phases; see `synthesizer.Synthesizer`."""
    encoding = Encoding.of(people.domain, release)
    plan, coded = MatchPlan(encoding, release), encoding.coded(people)
    first = _fit_singles(coded, plan, context)
    compression = plan.compression(first.answers)
    number = compression.columns[0].noisy.people
    known = (
        *([Known((), np.array(float(number)), 1.0)] if people.domain.moves else []),
        *(merged.known(place) for place, merged in enumerate(compression.columns)),
        *_unmerged(context.known, encoding, compression),
    )
    later = plan.later(compression.domain, number, known)
    rest = _after(context, len(first.picked), later.most_rounds)
    return MatchFit(
        encoding=encoding,
        compression=compression,
        first=first,
        second=fit_plan(compression.merged(coded), later, release.kind, rest),
        known=known,
        dropped=plan.dropped(compression.domain),
    )


def _fit_singles(
    coded: People, plan: MatchPlan, context: FitContext
) -> AdaptiveFit[Residuals, Never]:
    """Measures the number of people where it is private, and single columns."""
    method: AdaptiveMethod[Residuals, Never] = AdaptiveMethod(
        title=plan.release.kind,
        workload=plan.singles,
        phase=plan.phase,
        rounds=len(plan.first()) + 1,
        start=lambda seed: _Answered(),
    )
    return fit_adaptively(coded, method, context)


def _after(context: FitContext, first: int, later: int) -> FitContext:
    """The context of the second phase. first, later: the rounds of both."""

    def progress(done: int, rounds: int, error: float) -> None:
        context.progress(done + first, max(later, done) + first, error)

    return replace(context, transcript=_Later(context.transcript, first), progress=progress)


def _unmerged(
    known: tuple[Known, ...], encoding: Encoding, compression: Compression
) -> list[Known]:
    """Published interactions of columns that compression leaves unchanged."""
    same = {
        part[0]: place
        for place, part in enumerate(encoding.parts)
        if len(part) == 1 and compression.columns[place].identity
    }
    result = []
    for other in known:
        if all(c in same for c in other.columns):
            places = [same[c] for c in other.columns]
            order = np.argsort(places)
            columns: Columns = tuple(sorted(places))
            result.append(Known(columns, np.transpose(other.values, order), other.variance))
    return result


@dataclass(frozen=True)
class _Answered:
    """A model of nothing: the first phase is what it measures. See `loop.Model`."""

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("no phase picks")

    def learn(self, measured: NoisyAnswers) -> tuple[_Answered, float]:
        return self, float("nan")

    def sample(self, seed: int) -> Never:
        raise NotImplementedError("single columns alone are no table")


@dataclass(frozen=True)
class _Later:
    """A transcript of the second phase: the seed, and the rounds after those of the first.

    skipped: the rounds of the first phase.
    """

    transcript: FitTranscript
    skipped: int

    def rounds(self) -> list[bytes]:
        rounds = self.transcript.rounds()
        return [*rounds[:1], *rounds[1 + self.skipped :]]

    def record(self, number: int, data: bytes) -> bytes:
        return self.transcript.record(number + self.skipped * (number > 0), data)
