"""The loop of all methods: phases of measurements, decided once, and a model.

Source: Liu and Wu 2022, "Private synthetic data with hierarchical structure" (arXiv 2206.05942),
section "Adaptive Measurements". This version adds exact discrete noise, entire marginals as
candidates, and phases (`phases.py`).

Round 0 is the seed of all random numbers of post-processing. A phase `Everything` is one round that
measures all of its candidates. A phase `Rounds` picks K candidates a round, one after the other,
that the model answers badly (`noise.noisy_top`, an exact exponential mechanism), and measures each
of them once with independent discrete Gaussian noise. It picks no candidate that is measured
already. The candidates and answers of a round are recorded together before either is used. The
model learns from all answers so far before anything is picked, and at the end.

Cost: the sum of the phases' parts, as the costs of rounds add up under zCDP even if later rounds
depend on earlier ones (Bun and Steinke 2016, Lemma 2.3).
- Measurements cost what the phases' filter states: for a pair of neighbours whose counts differ by
  D2 in squares, noise of variance s2 costs D2 / (2 s2), and the costs of a pair add up.
- K picks from scores that change by at most D, with Gumbel noise of squared scale b2, cost
  K D^2 / (2 b2) (`zcdp.selection_rho`). A score is a sum of |count - c|, less a public number,
  where the integers c depend on earlier rounds only. So it changes by at most the L1 change of the
  counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.privacy.noise import Measurements, NoiseSource, exact_variance

from ..data.domain import Int64Array
from ..synthesizer import FitContext, begun_rounds, first_seed
from .annealing import Annealed, NextPhase, Phase
from .phases import (
    CHARGES,
    Candidates,
    Everything,
    NoisyAnswers,
    PrivacyFilter,
    Rounds,
    Weighed,
)

D = TypeVar("D")  # what a release looks at: people, or groups and their members
S = TypeVar("S", covariant=True)
W = TypeVar("W", bound=Candidates)


class Planned(Candidates, Protocol):
    """Candidates of a plan whose phases depend on no answer."""

    def filter_after(self, phases: Sequence[Phase], answers: NoisyAnswers) -> PrivacyFilter:
        """The filter after phases with these answers."""


P = TypeVar("P", bound=Planned)


class Model(Protocol[S]):
    """A distribution of data: a frozen value that sees noisy answers only."""

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        """(n,) expected counts of the workload's rows, for phases of rounds."""

    def learn(self, measured: NoisyAnswers) -> tuple[Model[S], float]:
        """Returns a model fitted to these answers, and the error on the answers.

        The error is about 1 if the model misses only the noise.
        """

    def sample(self, seed: int) -> S: ...


class Unasked:
    """A model without answers: of phases that do not pick."""

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        raise NotImplementedError("no phase picks by this model")


@dataclass(frozen=True)
class AdaptiveMethod(Generic[W, S]):
    """A method's contribution to the loop.

    title: the method in words.
    workload: what may be measured.
    phase: the phases, one after the other.
    rounds: of all phases, at most.
    start: the first model, from a seed.
    """

    title: str
    workload: W
    phase: NextPhase
    rounds: int
    start: Callable[[int], Model[S]]

    @staticmethod
    def of(
        title: str,
        workload: P,
        phases: Sequence[Phase],
        start: Callable[[int], Model[S]],
    ) -> AdaptiveMethod[P, S]:
        """A method whose phases depend on no answer, but for the filter before rounds."""

        def phase(number: int, answers: NoisyAnswers) -> Phase | None:
            following = phases[number] if number < len(phases) else None
            if not isinstance(following, Rounds):
                return following
            return replace(following, before=workload.filter_after(phases[:number], answers))

        return AdaptiveMethod(
            title,
            workload=workload,
            phase=phase,
            rounds=sum(phase.rounds for phase in phases),
            start=start,
        )


@dataclass(frozen=True)
class AdaptiveFit(Generic[W, S]):
    """A fitted model and its rounds; see `synthesizer.FittedModel`.

    picked: the candidates of each round.
    answers: all that was measured.
    error: of the model on these answers.
    exact: whether all rounds together are charged the exact maximum over pairs of neighbours.
    remarks: further public numbers of the model, for the certificate.
    """

    title: str
    workload: W
    picked: tuple[tuple[int, ...], ...]
    answers: NoisyAnswers
    model: Model[S]
    error: float
    exact: bool
    remarks: Mapping[str, float] = field(default_factory=dict)

    @property
    def measurements(self) -> Measurements:
        texts = self.workload.texts(self.answers.rows)
        return Measurements(texts, self.answers.values, self.answers.variances)

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        """Public numbers. The error is chi squared over its degrees of freedom, if it is known."""
        error = {"error_on_measurements": self.error} if math.isfinite(self.error) else {}
        return {
            "rounds": len(self.picked),
            "candidates": self.workload.candidates,
            "measured": sum(map(len, self.picked)),
            "charge": CHARGES[self.exact],
            **error,
            **self.remarks,
        }

    def sample(self, seed: int) -> S:
        return self.model.sample(seed)


def fit_adaptively(data: D, method: AdaptiveMethod[W, S], context: FitContext) -> AdaptiveFit[W, S]:
    """Fits a model in phases of measurements; the phases' parts of rho are the cost.

    Raises UserError where the transcript holds rounds of something else.
    """
    workload, transcript = method.workload, context.transcript
    rounds = begun_rounds(context)
    model, error = method.start(first_seed(rounds)), float("nan")
    confidential = _Data(data, workload, context.source)
    picked: list[tuple[int, ...]] = []
    answers, exact = NoisyAnswers.none(), True
    phase, phases_done = method.phase(0, answers), 0
    while phase is not None:
        number, exact = len(picked) + 1, exact and phase.exact
        if number == len(rounds):
            variances = phase.variances(workload)
            chosen = confidential.chosen(phase, variances, model, answers.candidates)
            measured = confidential.measure(chosen, phase.measured(workload, chosen), phase)
            rounds.append(transcript.record(number, measured))
        phase, chosen, values = _decoded_round(rounds[number], workload, phase, answers.candidates)
        variances = phase.measured(workload, chosen)
        picked.append(chosen)
        answers = answers.joined(workload, chosen, values, variances)
        following: Phase | None = phase.after(workload, chosen)
        if following is None:
            phases_done += 1
            following = method.phase(phases_done, answers)
        if not isinstance(following, Everything):
            previous = model
            model, error = model.learn(answers)
            if isinstance(following, Annealed) and isinstance(phase, Annealed):
                rows = workload.rows(chosen)
                learnt = float(np.abs(model.answers(rows) - previous.answers(rows)).sum())
                following = following.judged(learnt, _noise(workload, chosen, variances))
        context.progress(number, max(method.rounds, number), error)
        phase = following
    return AdaptiveFit(
        title=method.title,
        workload=workload,
        picked=tuple(picked),
        answers=answers,
        model=model,
        error=error,
        exact=exact,
    )


def recorded_answers(
    workload: Candidates, phases: NextPhase, rounds: Sequence[bytes]
) -> tuple[NoisyAnswers, int]:
    """The noisy answers in the rounds of a complete fit, and the number of rounds that hold them.

    rounds: of a transcript, from round 0; there may be more of them, for another fit.
    Raises UserError where they are rounds of something else.
    """
    answers, number = NoisyAnswers.none(), 0
    phase, phases_done = phases(0, answers), 0
    while phase is not None:
        number += 1
        recorded = rounds[number] if number < len(rounds) else b""
        phase, chosen, values = _decoded_round(recorded, workload, phase, answers.candidates)
        answers = answers.joined(workload, chosen, values, phase.measured(workload, chosen))
        phase = phase.after(workload, chosen)
        if phase is None:
            phases_done += 1
            phase = phases(phases_done, answers)
    return answers, number


def _noise(workload: Any, chosen: Sequence[int], variances: Mapping[int, Fraction]) -> float:
    """How far the noise in candidates moves the counts that a model answers, in sum."""
    return float(sum(workload.noise(i, exact_variance(variances[i]) ** 0.5) for i in chosen))


@dataclass
class _Data:
    """The confidential side: the only code here that reads the data, and only to draw a round."""

    data: Any
    workload: Any
    source: NoiseSource

    @cached_property
    def counts(self) -> Callable[[Sequence[int]], Int64Array]:
        """Gives the exact counts of candidates."""
        counts: Callable[[Sequence[int]], Int64Array] = self.workload.counter(self.data)
        return counts

    @cached_property
    def judged(self) -> Callable[[Sequence[int]], Int64Array]:
        """Gives the exact counts that a model's answers are about."""
        judged: Callable[[Sequence[int]], Int64Array] = self.workload.judged(self.data)
        return judged

    def chosen(
        self,
        phase: Phase,
        variances: Mapping[int, Fraction],
        model: Model[Any],
        measured: Sequence[int],
    ) -> Sequence[int]:
        """The candidates of a phase's next round."""
        if isinstance(phase, Everything):
            return phase.candidates
        # All of the phase's candidates in every round, so that a compiled model keeps its shape.
        candidates = phase.candidates
        answers = model.answers(self.workload.rows(candidates))
        exact = {v: exact_variance(v) ** 0.5 for v in set(variances.values())}
        deviations = [exact[variances[i]] for i in candidates]
        scores = self.workload.scores(candidates, self.judged(candidates), answers, deviations)
        if isinstance(phase, Annealed):
            return phase.picked(self.workload, scores, measured, self.source)
        measured_indices = set(measured)
        free = [position for position, i in enumerate(candidates) if i not in measured_indices]
        top = self.source.top(scores[free], phase.picks, phase.scale(self.workload))
        return [candidates[free[position]] for position in top]

    def measure(
        self, candidates: Sequence[int], variances: Mapping[int, Fraction], phase: Phase
    ) -> bytes:
        """A round to record: candidates, noisy answers, and the level of noise or the precisions.

        Noise is drawn before the counts are read.
        """
        sizes = np.diff(self.workload.starts)
        demand = [(variances[i], int(sizes[i])) for i in candidates]
        noise = np.concatenate(self.source.draw(demand).noise)
        values = self.counts(candidates) + noise
        stated = [phase.stated] if isinstance(phase, Annealed | Weighed) else []
        return msgspec.msgpack.encode((list(candidates), values.astype("<i8").tobytes(), *stated))


def _decoded_round(
    data: bytes, workload: Candidates, phase: Phase, measured: Sequence[int]
) -> tuple[Phase, tuple[int, ...], Int64Array]:
    """The phase of a recorded round, as the round states it; the candidates and their answers.

    measured: the candidates of all earlier rounds.
    Raises UserError unless the phase allows the round.
    """
    shape: Any = tuple[list[int], bytes]
    if isinstance(phase, Annealed):
        shape = tuple[list[int], bytes, int]
    elif isinstance(phase, Weighed):
        shape = tuple[list[int], bytes, list[int]]
    try:
        chosen, encoded, *stated = msgspec.msgpack.decode(data, type=shape)
        values = np.frombuffer(encoded, "<i8").astype(np.int64)
        if isinstance(phase, Annealed):
            phase = phase.at(*stated)
        elif isinstance(phase, Weighed):
            if not {*chosen} <= {*range(workload.candidates)}:
                raise ValueError("no such candidate")
            phase = phase.at(chosen, *stated)
    except (msgspec.MsgspecError, ValueError):
        chosen, values = [], np.zeros(0, np.int64)
    if not phase.allows(chosen, measured) or len(values) != len(workload.rows(chosen)):
        raise UserError("the job's transcript is not of what its release declares")
    return phase, tuple(chosen), values
