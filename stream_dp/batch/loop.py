"""Adaptive measurements, once for all methods: pick what the model answers badly, measure, learn.

Source: Liu, Wu, Private synthetic data with hierarchical structure (arXiv 2206.05942), Adaptive
Measurements; here with exact noise, whole marginals as candidates, and an opening round.

Round 0 is a seed for all randomness of post-processing. With an opening, round 1 measures it. Every
other round picks K candidates, one after the other, that the model answers badly
(`noise.noisy_top`: the exponential mechanism, exact), and measures each of them once with
independent discrete Gaussian noise. No candidate is picked twice. The picks and the answers of a
round are recorded together before either is used, and the model learns from all answers so far.

Cost, exactly rho under `replace_in_place` (zCDP composes adaptively, by sums)
- a measurement of squared L2 sensitivity D2 with noise of variance s2: D2 / (2 s2)
  (`zcdp.gaussian_rho`; D2 from `sensitivity.py`);
- K picks from scores that change by at most D, with Gumbel noise of squared scale b2:
  K D^2 / (2 b2)
  (`zcdp.selection_rho`). A score is a sum of |count - c| with c integers that are known, given the
  rounds before, less a public number: it changes by no more than the counts' L1 change.
Each measurement and each pick is given an equal part of what there is for its kind, and its
variance follows from that part: the sum is rho.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import NoiseSource, exact_variance
from stream_dp.privacy.zcdp import gaussian_rho, selection_rho

from .base import FitTranscript, ProgressCallback
from .data.domain import Hierarchy, Int64Array
from .workload import counts as exact
from .workload.candidates import Workload

SELECTION, OPENING = Fraction(1, 10), Fraction(1, 5)


@dataclass(frozen=True)
class NoisyAnswers:
    """Everything measured so far: what a model may learn from.

    rows: of the workload's queries; values, variances: (n,); ends: where each candidate's end.
    """

    rows: Int64Array
    values: Int64Array
    variances: tuple[Fraction, ...]
    ends: tuple[int, ...]

    @property
    def noise(self) -> NDArray[np.float64]:
        """(n,) the variances that the noise has."""
        known = {v: exact_variance(v) for v in set(self.variances)}
        return np.array([known[v] for v in self.variances], np.float64)


class Model(Protocol):
    """A distribution over groups and members, a frozen value. All of it is post-processing."""

    def answers(self, rows: Int64Array) -> NDArray[np.float64]:
        """Expected counts of some queries of the workload."""

    def learn(self, measured: NoisyAnswers) -> tuple[Model, float]:
        """A model that answers these better, and its error: about 1 if only noise is missed."""

    def sample(self, seed: int) -> Hierarchy: ...


@dataclass(frozen=True)
class AdaptivePlan:
    """How rho is spent. Everything is public.

    rounds: of picking, each of per_round candidates; selection: the part of what a round spends
    that goes into picking; opening: the part of rho that goes to the opening, if there is one.
    Raises ValueError for parts that leave nothing.
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
        """For a workload; with fewer candidates than picks, all of them in fewer rounds."""
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
    """variances: of the noise, by candidate; scale: the squared scale of a pick's noise."""

    rounds: int
    picks: int
    variances: tuple[Fraction, ...]
    scale: Fraction

    def cost(self, workload: Workload, picked: Sequence[Sequence[int]]) -> Fraction:
        """Of the rounds in which these candidates were measured, from the formulas alone."""
        total = Fraction(0)
        for number, round_ in enumerate(picked, 1):
            total += sum(gaussian_rho(workload.squared[i], self.variances[i]) for i in round_)
            if number > 1 or not workload.opening:
                total += selection_rho(workload.sensitivity, self.scale, len(round_))
        return total


@dataclass(frozen=True)
class AdaptiveFit:
    """A fitted model and the rounds it is from; see `base.FittedModel`."""

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
    hierarchy: Hierarchy,
    workload: Workload,
    plan: AdaptivePlan,
    start: Callable[[int], Model],
    source: NoiseSource,
    transcript: FitTranscript,
    progress: ProgressCallback,
    title: str,
) -> AdaptiveFit:
    """All rounds; start: makes the first model from a seed. plan.rho-zCDP.

    Raises UserError where the transcript holds rounds of something else.
    """
    budget = plan.budget(workload)
    done = transcript.rounds()
    if not done:
        # From the source's coins: so a simulation repeats itself.
        done.append(transcript.record(0, source.draw([]).coins.bytes(32)))
    data = _Data(hierarchy, workload, budget, source)
    model, error = start(int.from_bytes(done[0], "big")), float("nan")
    picked: list[tuple[int, ...]] = []
    measured = NoisyAnswers(np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())
    last = budget.rounds + bool(workload.opening)
    for number in range(1, last + 1):
        if number == len(done):
            opens = number == 1 and workload.opening
            chosen = range(workload.opening) if opens else data.pick(model, picked)
            done.append(transcript.record(number, data.measure(chosen)))
        chosen, values = _read(done[number], workload, budget, picked)
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
        progress(number, last, error)
    return AdaptiveFit(title, workload, tuple(picked), measured, model, error)


@dataclass
class _Data:
    """The confidential side: nothing else here reads the data, and only as a round is drawn."""

    hierarchy: Hierarchy
    workload: Workload
    budget: RoundBudget
    source: NoiseSource
    known: Int64Array | None = None

    @property
    def true(self) -> Int64Array:
        if self.known is None:
            self.known = exact.exact_answers(self.hierarchy, self.workload.queries)
        return self.known

    def pick(self, model: Model, picked: Sequence[Sequence[int]]) -> Sequence[int]:
        work = self.workload
        first = int(work.starts[work.opening])
        answers = model.answers(np.arange(first, len(work.queries)))
        deviations = [exact_variance(v) ** 0.5 for v in self.budget.variances]
        scores = work.scores(self.true[first:], answers, deviations)
        picked_before = np.zeros(work.candidates, bool)
        picked_before[[*range(work.opening), *(i for round_ in picked for i in round_)]] = True
        left = np.flatnonzero(~picked_before)
        chosen = self.source.top(scores[left], self.budget.picks, self.budget.scale)
        candidates: list[int] = left[chosen].tolist()
        return candidates

    def measure(self, candidates: Sequence[int]) -> bytes:
        """A round's record. Noise is drawn before the counts are looked at."""
        sizes = np.diff(self.workload.starts)
        demand = [(self.budget.variances[i], int(sizes[i])) for i in candidates]
        noise = np.concatenate(self.source.draw(demand).noise)
        values = self.true[self.workload.rows(candidates)] + noise
        return msgspec.msgpack.encode((list(candidates), values.astype("<i8").tobytes()))


def _read(
    data: bytes, workload: Workload, budget: RoundBudget, picked: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], Int64Array]:
    """The candidates and answers of the round after those in which `picked` were."""
    try:
        chosen, encoded = msgspec.msgpack.decode(data, type=tuple[list[int], bytes])
        values = np.frombuffer(encoded, "<i8").astype(np.int64)
    except (msgspec.MsgspecError, ValueError):
        chosen, values = [], np.zeros(0, np.int64)
    if not picked and workload.opening:
        right = chosen == list(range(workload.opening))
    else:
        before = {i for round_ in picked for i in round_}
        there = all(workload.opening <= i < workload.candidates for i in chosen)
        right = there and len({*chosen} - before) == len(chosen) == budget.picks
    if not right or len(values) != len(workload.rows(chosen)):
        raise UserError("the job's transcript is not of what its release declares")
    return tuple(chosen), values
