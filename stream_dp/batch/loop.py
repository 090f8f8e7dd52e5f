"""The adaptive loop of all methods: pick what the model answers badly, measure it, learn from it.

Source: Liu and Wu 2022, "Private synthetic data with hierarchical structure" (arXiv 2206.05942),
section "Adaptive Measurements". This version adds exact discrete noise, entire marginals as
candidates and an opening round.

Round 0 is the seed of all random numbers of post-processing. If the workload has an opening,
round 1 measures it. Every other round picks K candidates, one after the other, that the model
answers badly (`noise.noisy_top`, an exact exponential mechanism), and measures each of them once
with independent discrete Gaussian noise. No candidate is picked twice. The picks and answers of a
round are recorded together before either is used, and the model learns from all answers so far.

Cost: exactly rho under `replace_in_place`, as the costs of rounds add up under zCDP even if later
rounds depend on earlier ones (Bun and Steinke 2016, Lemma 2.3).
- A measurement of squared L2 sensitivity D2 (`workload/sensitivity.py`) with noise of variance s2
  costs D2 / (2 s2) (`zcdp.gaussian_rho`).
- K picks from scores that change by at most D, with Gumbel noise of squared scale b2, cost
  K D^2 / (2 b2) (`zcdp.selection_rho`). A score is a sum of |count - c|, less a public number,
  where the integers c depend on earlier rounds only. So it changes by at most the L1 change of the
  counts.
The budget of measurements is split equally among them, and so is the budget of picks; variances
follow from these parts, and the sum is rho.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import NoiseSource, exact_variance
from stream_dp.privacy.zcdp import gaussian_rho, selection_rho

from .base import FitContext
from .data.domain import Hierarchy, Int64Array
from .workload.candidates import Workload
from .workload.counts import exact_answers

SELECTION, OPENING = Fraction(1, 10), Fraction(1, 5)


@dataclass(frozen=True)
class NoisyAnswers:
    """Everything measured so far.

    rows: (n,) rows of the workload's queries.
    values: (n,) their noisy answers.
    variances: (n,) parameters of the discrete Gaussian noise in each.
    ends: for each measured candidate, the position after its last row.
    """

    rows: Int64Array
    values: Int64Array
    variances: tuple[Fraction, ...]
    ends: tuple[int, ...]

    @property
    def noise(self) -> NDArray[np.float64]:
        """(n,) exact variances of the noise, which are below those parameters."""
        exact = {v: exact_variance(v) for v in set(self.variances)}
        return np.array([exact[v] for v in self.variances], np.float64)


class Model(Protocol):
    """A distribution over groups and members: a frozen value that sees noisy answers only."""

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        """(n,) expected counts of the workload's queries in these rows."""

    def learn(self, measured: NoisyAnswers) -> tuple[Model, float]:
        """A model that fits these answers better, and its error on them.

        The error is about 1 if the model misses only the noise.
        """

    def sample(self, seed: int) -> Hierarchy: ...


@dataclass(frozen=True)
class AdaptivePlan:
    """How rho is spent. All of it is public.

    rho: the budget of the release.
    rounds: the number of rounds that pick.
    per_round: candidates that a round picks.
    selection: the part of a round's budget that pays for picking.
    opening: the part of rho that pays for the opening, if the workload has one.
    Raises ValueError unless every part of the budget is positive.
    """

    rho: Fraction
    rounds: int
    per_round: int = 1
    selection: Fraction = SELECTION
    opening: Fraction = OPENING

    def __post_init__(self) -> None:
        if self.rho <= 0 or not 0 < self.selection < 1 or not 0 < self.opening < 1:
            raise ValueError("rho must be positive, and parts of it between 0 and 1")
        if self.rounds < 1 or self.per_round < 1:
            raise ValueError("there must be a round and a pick in it")

    def budget(self, workload: Workload) -> RoundBudget:
        """The plan for a workload. If there are fewer candidates than picks, all are measured."""
        free = workload.candidates - workload.opening
        picks = min(self.per_round, free)
        rounds = min(self.rounds, free // picks)
        first = self.opening * self.rho if workload.opening else Fraction(0)
        each = (self.rho - first) / (rounds * picks)
        measuring = (1 - self.selection) * each
        opened = first / workload.opening if workload.opening else Fraction(0)
        spent = [opened] * workload.opening + [measuring] * free
        return RoundBudget(
            rounds,
            picks,
            tuple(s / (2 * r) for s, r in zip(workload.squared, spent, strict=True)),
            workload.sensitivity**2 / (2 * self.selection * each),
        )


@dataclass(frozen=True)
class RoundBudget:
    """A plan for one workload.

    rounds: the number of rounds that pick.
    picks: candidates that a round picks.
    variances: of the noise, by candidate.
    scale: the squared scale of a pick's Gumbel noise.
    """

    rounds: int
    picks: int
    variances: tuple[Fraction, ...]
    scale: Fraction

    def cost(self, workload: Workload, picked: Sequence[Sequence[int]]) -> Fraction:
        """The rho spent by rounds that measured these candidates, from the formulas above."""
        total = Fraction(0)
        for number, round_ in enumerate(picked, 1):
            total += sum(gaussian_rho(workload.squared[i], self.variances[i]) for i in round_)
            if number > 1 or not workload.opening:
                total += selection_rho(workload.sensitivity, self.scale, len(round_))
        return total


@dataclass(frozen=True)
class AdaptiveMethod:
    """What a method brings to the loop.

    title: the method in words.
    workload: what it is to answer well, by candidate.
    plan: how rho is spent.
    start: the first model, from a seed.
    """

    title: str
    workload: Workload
    plan: AdaptivePlan
    start: Callable[[int], Model]


@dataclass(frozen=True)
class AdaptiveFit:
    """A fitted model and the rounds that it comes from; see `base.FittedModel`.

    picked: the candidates of each round.
    answers: all that was measured.
    error: of the model on these answers.
    """

    title: str
    workload: Workload
    picked: tuple[tuple[int, ...], ...]
    answers: NoisyAnswers
    model: Model
    error: float

    @property
    def measurements(self) -> Measurements:
        queries, domain = self.workload.queries, self.workload.domain
        texts = tuple(queries.text(i, domain) for i in self.answers.rows.tolist())
        return Measurements(texts, self.answers.values, self.answers.variances)

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        return {
            "rounds": len(self.picked),
            "candidates": self.workload.candidates,
            "measured": sum(map(len, self.picked)),
            "error_on_measurements": self.error,
        }

    def sample(self, seed: int) -> Hierarchy:
        return self.model.sample(seed)


def fit_adaptively(
    hierarchy: Hierarchy, method: AdaptiveMethod, context: FitContext
) -> AdaptiveFit:
    """Fits a model in adaptive rounds: `method.plan.rho`-zCDP under `replace_in_place`.

    Raises UserError where the transcript holds rounds of something else.
    """
    workload, transcript, source = method.workload, context.transcript, context.source
    budget = method.plan.budget(workload)
    rounds = transcript.rounds()
    if not rounds:
        # From the source's random bits, so that a seeded simulation can be repeated.
        rounds.append(transcript.record(0, source.draw([]).coins.bytes(32)))
    data = _Data(hierarchy, workload, budget, source)
    model, error = method.start(int.from_bytes(rounds[0], "big")), float("nan")
    picked: list[tuple[int, ...]] = []
    measured = NoisyAnswers(np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())
    last = budget.rounds + bool(workload.opening)
    for number in range(1, last + 1):
        if number == len(rounds):
            opens = number == 1 and workload.opening
            chosen = range(workload.opening) if opens else data.pick(model, picked)
            rounds.append(transcript.record(number, data.measure(chosen)))
        chosen, values = _decoded_round(rounds[number], workload, budget, picked)
        picked.append(chosen)
        sizes = np.diff(workload.starts)[list(chosen)].tolist()
        end = len(measured.rows)
        measured = NoisyAnswers(
            np.concatenate([measured.rows, workload.rows(chosen)]),
            np.concatenate([measured.values, values]),
            measured.variances
            + tuple(
                budget.variances[i] for i, n in zip(chosen, sizes, strict=True) for _ in range(n)
            ),
            measured.ends + tuple(end + int(n) for n in np.cumsum(sizes)),
        )
        model, error = model.learn(measured)
        context.progress(number, last, error)
    return AdaptiveFit(
        title=method.title,
        workload=workload,
        picked=tuple(picked),
        answers=measured,
        model=model,
        error=error,
    )


@dataclass
class _Data:
    """The confidential side: the only code here that reads the data, and only to draw a round."""

    hierarchy: Hierarchy
    workload: Workload
    budget: RoundBudget
    source: NoiseSource

    @cached_property
    def true(self) -> Int64Array:
        """(queries,) exact answers to the workload."""
        return exact_answers(self.hierarchy, self.workload.queries)

    def pick(self, model: Model, picked: Sequence[Sequence[int]]) -> Sequence[int]:
        """The candidates of the next round: none of the opening, none of those in `picked`."""
        workload = self.workload
        first = int(workload.starts[workload.opening])
        answers = model.answers(np.arange(first, len(workload.queries)))
        deviations = [exact_variance(v) ** 0.5 for v in self.budget.variances]
        scores = workload.scores(self.true[first:], answers, deviations)
        picked_before = np.zeros(workload.candidates, bool)
        picked_before[[*range(workload.opening), *(i for round_ in picked for i in round_)]] = True
        left = np.flatnonzero(~picked_before)
        chosen = self.source.top(scores[left], self.budget.picks, self.budget.scale)
        candidates: list[int] = left[chosen].tolist()
        return candidates

    def measure(self, candidates: Sequence[int]) -> bytes:
        """A round as recorded: the candidates and their noisy answers.

        Noise is drawn before the counts are read.
        """
        sizes = np.diff(self.workload.starts)
        demand = [(self.budget.variances[i], int(sizes[i])) for i in candidates]
        noise = np.concatenate(self.source.draw(demand).noise)
        values = self.true[self.workload.rows(candidates)] + noise
        return msgspec.msgpack.encode((list(candidates), values.astype("<i8").tobytes()))


def _decoded_round(
    data: bytes, workload: Workload, budget: RoundBudget, picked: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], Int64Array]:
    """The candidates and answers of the round that follows those that measured `picked`.

    Raises UserError unless it is such a round of this workload and budget.
    """
    try:
        chosen, encoded = msgspec.msgpack.decode(data, type=tuple[list[int], bytes])
        values = np.frombuffer(encoded, "<i8").astype(np.int64)
    except (msgspec.MsgspecError, ValueError):
        chosen, values = [], np.zeros(0, np.int64)
    if not picked and workload.opening:
        right = chosen == list(range(workload.opening))
    else:
        before = {i for round_ in picked for i in round_}
        valid = all(workload.opening <= i < workload.candidates for i in chosen)
        right = valid and len({*chosen} - before) == len(chosen) == budget.picks
    if not right or len(values) != len(workload.rows(chosen)):
        raise UserError("the job's transcript is not of what its release declares")
    return tuple(chosen), values
