"""The kind `match` on people: two phases, a compressed domain between them, one model at the end.

Source: McKenna, Miklau, Sheldon 2021, "Winning the NIST Contest" (arXiv 2108.04978). This version
measures interactions instead of marginals, as exact integers, takes no query from data, and fits
the mixture of blocks of the other kinds of people. Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import MatchRelease
from stream_dp.study.method_titles import PICKED_TITLE, kind_title

from ...base import FitContext, FitTranscript, begun_edition
from ...data.domain import Int64Array
from ...loop import AdaptiveFit, AdaptiveMethod, fit_adaptively
from ...phases import NoisyAnswers
from ..known import Known
from ..residuals import Columns, Residuals
from ..rounds.model import LIGHT, TreeModel
from ..synthesizer import BlockMixture
from ..table import People, PeopleDomain
from ..tree import JunctionTree
from .compression import Compression
from .encoding import Encoding
from .fit import MatchFit
from .graph import MOST_CELLS, GraphModel
from .plan import MatchPlan

EDITION, EARLIER = b"match 2", b"match 1"


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
    """A transcript without its first rounds but for the seed.

    skipped: how many rounds after the seed.
    """

    transcript: FitTranscript
    skipped: int

    def rounds(self) -> list[bytes]:
        rounds = self.transcript.rounds()
        return [*rounds[:1], *rounds[1 + self.skipped :]]

    def record(self, number: int, data: bytes) -> bytes:
        return self.transcript.record(number + self.skipped * (number > 0), data)


def fit_match(people: People, release: MatchRelease, context: FitContext) -> MatchFit:
    """See `base.Synthesizer`.

    A job that an earlier version began goes on as it was begun: its pairs are never picked. So does
    one whose marginals are declared, which has the plan of that version.
    """
    encoding = Encoding.of(people.domain, release)
    plan, title = MatchPlan(encoding, release), kind_title(release.kind)
    begun = begun_edition(context) if context.transcript.rounds() else None
    if not plan.choosing or begun == EARLIER:
        plan = replace(plan, chosen=False)
    edition = EDITION if plan.chosen else EARLIER
    phases = plan.first()
    every = len(phases) + 1
    coded = encoding.coded(people)
    first: AdaptiveFit[Residuals, Never] = fit_adaptively(
        coded,
        AdaptiveMethod(
            title=title,
            workload=plan.singles,
            phase=plan.phase,
            rounds=every,
            start=lambda seed: _Answered(),
            edition=edition,
        ),
        context,
    )
    compression = plan.compression(first.answers)
    number = compression.columns[0].noisy.people
    known = (
        *([Known((), np.array(float(number)), 1.0)] if people.domain.moves else []),
        *(merged.known(place) for place, merged in enumerate(compression.columns)),
        *_unmerged(context.known, encoding, compression),
    )
    method = _second(plan, compression.domain, number, known)
    every = len(phases) + method.rounds
    second: AdaptiveFit[Residuals, People] = fit_adaptively(
        compression.merged(coded),
        replace(method, edition=edition),
        replace(
            context,
            transcript=_Later(context.transcript, len(phases)),
            progress=lambda done, rounds, error: context.progress(
                done + len(phases), max(every, done + len(phases)), error
            ),
        ),
    )
    return MatchFit(
        encoding=encoding,
        compression=compression,
        first=first,
        second=second,
        known=known,
        dropped=plan.dropped(compression.domain),
    )


def _second(
    plan: MatchPlan, domain: PeopleDomain, people: int, known: tuple[Known, ...]
) -> AdaptiveMethod[Any, People]:
    """The second phase on a compressed domain.

    people: how many there are, public or noisy.
    """
    picked = plan.picked(domain, people, known)
    if picked is not None:
        rounds = picked.picking(picked.rho)
        untaught = TreeModel(picked.pairs, picked.base, known, lean=LIGHT)
        return AdaptiveMethod.of(
            PICKED_TITLE,
            workload=picked.pairs,
            phases=[rounds],
            start=lambda seed: untaught.learn(NoisyAnswers.none())[0],
        )
    residuals, phase = plan.second(domain, people)
    tree = JunctionTree.of(domain.sizes, residuals.sets)
    exact = bool(plan.listed) and tree.cells <= MOST_CELLS
    return AdaptiveMethod.of(
        kind_title(plan.release.kind),
        workload=residuals,
        phases=[phase],
        start=lambda seed: (
            GraphModel(residuals, tree, known)
            if exact
            else BlockMixture(residuals, seed % (1 << 31), known)
        ),
    )


def _unmerged(
    known: tuple[Known, ...], encoding: Encoding, compression: Compression
) -> list[Known]:
    """What others have published of columns that are measured as they are."""
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
