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

Rounds with falling noise (`Annealed`; McKenna, Mullins, Sheldon, Miklau 2022, "AIM: an adaptive and
iterative mechanism for differentially private synthetic data", arXiv 2201.12677, "budget
annealing"). A round picks candidates that the model answers badly and measures each. If the model's
answers to them then changed by less than noise alone would explain, the next round has half the
deviation of noise in measurements and picks, so four times the cost. With less than two rounds'
cost left, one last round spends all of it. A candidate may be picked again in a later round.

A round that is not the last has the noise with which every pick costs the pair of neighbours that
is worst for it the same. What is left is counted by the filter, for the pair of neighbours that is
worst for all measurements together. So the last round, when its picks are made, has the least noise
that the filter allows. How far noise has fallen is recorded with a round, so that a fit that goes
on has the same noise. Whatever the record says, a round costs no more than is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.privacy.noise import Measurements, NoiseSource, exact_variance

from ..data.domain import Int64Array
from ..synthesizer import FitContext, begun_rounds, first_seed
from .phases import (
    CHARGES,
    SELECTION,
    Candidates,
    Everything,
    NoisyAnswers,
    Picking,
    PrivacyFilter,
    Ranked,
    Rounds,
    Weighed,
)

MOST_LEVEL = 40


@dataclass(frozen=True)
class Annealed(Picking):
    """The rounds that remain of a phase, and their rho.

    first: the rho of one pick and its measurement before noise falls.
    picks: candidates that a round picks, at most.
    allowed: from the candidates measured so far, in order, those that may be picked next; one at
        least.
    before: the filter that earlier measurements leave, with `rho` left.
    level: how often noise has fallen.
    Raises ValueError where the rounds have nothing to do.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    first: Fraction
    picks: int
    allowed: Callable[[Sequence[int]], Iterable[int]]
    before: PrivacyFilter
    selection: Fraction = SELECTION
    level: int = 0

    def __post_init__(self) -> None:
        if min(self.rho, self.first) <= 0 or not 0 < self.selection < 1:
            raise ValueError("rho must be positive, and parts of it between 0 and 1")
        if self.picks < 1 or not self.candidates or not 0 <= self.level <= MOST_LEVEL:
            raise ValueError("there must be a pick, a candidate, and noise")

    @property
    def stated(self) -> int:
        """What a round states beside its answers."""
        return self.level

    @property
    def rounds(self) -> int:
        """The number of rounds if noise does not fall."""
        return max(1, int(self.rho / (self.first * self.picks)))

    @property
    def last(self) -> bool:
        """Whether the next round spends the rest of rho."""
        return self.rho < 2 * self.picks * self._full

    @property
    def _full(self) -> Fraction:
        return self.first * Fraction(4**self.level)

    @property
    def each(self) -> Fraction:
        return self.rho / self.picks if self.last else self._full

    def picked(
        self,
        workload: Ranked,
        scores: Int64Array,
        measured: Sequence[int],
        source: NoiseSource,
    ) -> list[int]:
        """The next round's candidates, in the order of picking.

        scores: (candidates,) of all candidates.
        measured: the candidates measured so far.
        """
        position = {i: p for p, i in enumerate(self.candidates)}
        chosen, scale = list[int](), self.scale(workload)
        for _ in range(self.picks):
            allowed = sorted({*self.allowed((*measured, *chosen))} - {*chosen})
            if not allowed:
                break
            (top,) = source.top(scores[[position[i] for i in allowed]], 1, scale)
            chosen.append(allowed[int(top)])
        return chosen

    def measured(self, workload: Candidates, picked: Sequence[int]) -> dict[int, Fraction]:
        """By pick, the variance of its noise; the last round takes all that the filter has left."""
        if self.last and picked:
            return self.filled(self.before, workload, picked)
        return self.variances(workload)

    @property
    def _allowed(self) -> PrivacyFilter:
        return self.before

    def allows(self, picked: Sequence[int], measured: Sequence[int]) -> bool:
        """Whether the next round may pick these candidates."""
        new = {*picked} & {*self.candidates}
        return 0 < len(new) == len(picked) <= self.picks

    def after(self, workload: Candidates, picked: Sequence[int]) -> Annealed | None:
        """The remaining rounds, or None."""
        if self.last:
            return None
        charged = self.charged(workload, picked)
        return replace(self, rho=charged.left, before=charged)

    def annealed(self, learnt: float, noise: float) -> Annealed:
        """The next rounds: their noise is half if a round taught no more than noise.

        learnt: how far the model's answers to what the round measured changed, in sum.
        noise: how far the round's noise alone would have moved these answers.
        """
        return self.at(self.level + 1) if learnt <= noise and self.level < MOST_LEVEL else self

    def at(self, level: int) -> Annealed:
        """The rounds after noise has fallen `level` times. Raises ValueError above MOST_LEVEL."""
        return replace(self, level=level)


Phase: TypeAlias = Everything | Rounds | Annealed

# The phase with a number, from 0, given all answers of earlier phases; None after the last phase.
NextPhase: TypeAlias = Callable[[int, NoisyAnswers], Phase | None]


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
        return AdaptiveMethod(
            title,
            workload=workload,
            phase=following_phases(workload, phases),
            rounds=sum(phase.rounds for phase in phases),
            start=start,
        )


def following_phases(workload: Planned, phases: Sequence[Phase]) -> NextPhase:
    """The phases of a plan in order; rounds get the privacy filter that earlier phases leave."""

    def phase(number: int, answers: NoisyAnswers) -> Phase | None:
        following = phases[number] if number < len(phases) else None
        if not isinstance(following, Rounds):
            return following
        return replace(following, before=workload.filter_after(phases[:number], answers))

    return phase


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
                following = following.annealed(learnt, _noise(workload, chosen, variances))
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
    def score_counts(self) -> Callable[[Sequence[int]], Int64Array]:
        """Gives the exact counts with which the scores compare a model's answers. Confidential."""
        counts: Callable[[Sequence[int]], Int64Array] = self.workload.score_counter(self.data)
        return counts

    def chosen(
        self,
        phase: Phase,
        variances: Mapping[int, Fraction],
        model: Model[Any],
        measured: Sequence[int],
    ) -> Sequence[int]:
        """The candidates of a phase's next round.

        They are picked with noise, by scores from exact counts (`score_counts`). The scores stay
        here.
        """
        if isinstance(phase, Everything):
            return phase.candidates
        # All of the phase's candidates in every round, so that a compiled model keeps its shape.
        candidates = phase.candidates
        answers = model.answers(self.workload.rows(candidates))
        exact = {v: exact_variance(v) ** 0.5 for v in set(variances.values())}
        deviations = [exact[variances[i]] for i in candidates]
        scores = self.workload.scores(
            candidates, self.score_counts(candidates), answers, deviations
        )
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
