"""Answers of least error against counting in the panel and against unbiased answers.

Panels are simulated by generators that differ. No constant of the method was chosen on them. Every
panel is published with several seeds, and all its patterns, times of a value, states, changes of
states and totals are asked. For each panel and family of queries the table has

- error: the root mean square error over that of counting in the panel: of the answers by default,
  and of the unbiased ones;
- covered: how many 95 % intervals have the truth in them;
- length: of the intervals, over those of the unbiased answers.

RECORD=1 python benchmarks/least_errors.py [SEEDS] [NAME...]
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.public_logs import log_in_memory, published
from kit.studies import attribute, cumulative, joint, small_study, window
from result_file import record

from stream_dp.answers.answering import PanelAnswers
from stream_dp.answers.error_weights import learned_weights
from stream_dp.answers.least_error_answers import Correction, Estimate, Term, largest_count
from stream_dp.answers.reruns import QuerySeries, ReleaseSeries, SeriesLayout, panel_codes, rerun
from stream_dp.client import PublicLog
from stream_dp.panel import window_codes, window_symbols
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import QUANTILE
from stream_dp.study import Study

Floats = np.ndarray
RARE, FEW = 0.01, 2  # of the people; people
EXTRACTS = ("few", "rare states")  # of the families of queries, not families of their own


@dataclass(frozen=True)
class Case:
    """A study and the true symbols of its only stream, (people, periods).

    periods: how many periods are published
    """

    study: Study
    symbols: np.ndarray
    periods: int | None = None


def hazards(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """Two states, into and out of which everybody moves at rates of their own."""
    enter, leave = random.beta(0.5, 12, people), random.beta(2, 6, people)
    symbols = np.empty((people, periods), np.uint8)
    symbols[:, 0] = random.random(people) < enter / (enter + leave)
    for t in range(1, periods):
        moves = random.random(people) < np.where(symbols[:, t - 1] == 1, leave, enter)
        symbols[:, t] = np.where(moves, 1 - symbols[:, t - 1], symbols[:, t - 1])
    return symbols


def seasons(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """Three states; the third one is frequent in summer."""
    tendency = random.gamma(0.7, 1, people)
    symbols = np.zeros((people, periods), np.uint8)
    for t in range(periods):
        summer = 0.12 * (1 + np.sin(2 * np.pi * t / 12)) * tendency
        draw = random.random(people)
        now = np.where(draw < summer, 2, np.where(draw < summer + 0.2, 1, 0))
        stays = random.random(people) < 0.6
        symbols[:, t] = np.where(stays & (t > 0), symbols[:, t - 1], now)
    return symbols


def spells(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """Four states that last for heavy-tailed times."""
    symbols = np.empty((people, periods), np.uint8)
    state = random.choice(4, people, p=[0.55, 0.25, 0.15, 0.05])
    left = np.ceil(random.pareto(1.2, people) + 1)
    for t in range(periods):
        ended = left <= 0
        state = np.where(ended, random.choice(4, people, p=[0.5, 0.3, 0.15, 0.05]), state)
        left = np.where(ended, np.ceil(random.pareto(1.2, people) + 1), left) - 1
        symbols[:, t] = state
    return symbols


def late(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """A third of the people change their state three periods before the end, and keep it."""
    symbols = np.repeat(random.random((people, 1)) < 0.15, periods, axis=1).astype(np.uint8)
    moved = random.random(people) < 0.3
    symbols[moved, periods - 3 :] = 1 - symbols[moved, periods - 3 :]
    flips = random.random(symbols.shape) < 0.02
    return np.where(flips, 1 - symbols, symbols).astype(np.uint8)


def rare(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """Three states, of which one is that of a few people in a thousand."""
    symbols = hazards(random, people, periods)
    for person in np.flatnonzero(random.random(people) < 0.01):
        start = random.integers(0, periods)
        symbols[person, start : start + random.integers(1, 4)] = 2
    return symbols


def shocks(random: np.random.Generator, people: int, periods: int, **how: Any) -> np.ndarray:
    """Two states; in two periods many people move, and half of them return."""
    symbols = hazards(random, people, periods)
    for t in (periods // 3, 2 * periods // 3):
        hit = random.random(people) < 0.2
        symbols[hit, t] = 1
        symbols[hit & (random.random(people) < 0.5), t : t + 3] = 1
    return symbols


def leaving(symbols: np.ndarray, random: np.random.Generator, absent: int) -> np.ndarray:
    """The panel with people who enter late, leave, or miss single periods."""
    people, periods = symbols.shape
    start = np.where(random.random(people) < 0.7, 0, random.integers(1, periods, people))
    end = np.where(random.random(people) < 0.6, periods, random.integers(2, periods + 1, people))
    t = np.arange(periods)
    there = (t >= start[:, None]) & (t < end[:, None]) & (random.random(symbols.shape) > 0.03)
    return np.where(there, symbols, absent).astype(np.uint8)


def case(
    generator: Any,
    release: dict[str, Any],
    *,
    people: int = 1500,
    periods: int = 12,
    values: int = 2,
    relation: str = "replace_one",
    size: bool = True,
    open_: bool = False,
    published_periods: int | None = None,
    attributes: dict[str, Any] | None = None,
    seed: int = 1,
) -> Case:
    random = np.random.default_rng(seed)
    symbols = generator(random, people, periods)
    if open_:
        symbols = leaving(symbols, random, values)
    if open_ or "where" in release:
        release = {**release, "rows": people + people // 10}
    missing = "absent" if open_ else 0
    return Case(
        small_study(
            rho=release["rho"],
            neighbours=relation,
            size=people if size else None,
            periods={"first": 1, "every": "step", "count": periods},
            attributes=attributes or {"x": attribute(list(range(values)), missing=missing)},
            releases=[release],
        ),
        symbols,
        published_periods,
    )


ABSENCE = {"open_": True, "size": False, "relation": "add_remove"}
TWO = {
    "x": attribute([0, 1], missing="absent"),
    "region": attribute(["n", "s"], missing="absent", fixed=True),
}


def cases() -> dict[str, Any]:
    """The panels, by name: functions of no argument."""
    private = {"relation": "add_remove", "size": False}
    return {
        "unequal hazards, windows": lambda: case(hazards, window("r", "x", 3, "1/50")),
        "four states, windows": lambda: case(
            spells, window("r", "x", 2, "1/20"), values=4, periods=8
        ),
        "late change, windows": lambda: case(late, window("r", "x", 3, "1/100"), people=800),
        "250 people, windows": lambda: case(hazards, window("r", "x", 3, "1/20"), people=250),
        "single periods, windows": lambda: case(hazards, window("r", "x", 1, "1/50"), people=800),
        "two shocks, totals": lambda: case(shocks, cumulative("r", "x", [1], "1/50")),
        "seasons, joint": lambda: case(
            seasons, joint("r", "x", 2, [2], "1/20"), values=3, people=800, periods=8
        ),
        "late change, joint": lambda: case(
            late, joint("r", "x", 2, [1], "1/100"), people=800, periods=8
        ),
        "a rare state, windows": lambda: case(
            rare, window("r", "x", 2, "1/20"), values=3, people=2000, periods=8
        ),
        "padding": lambda: case(hazards, window("r", "x", 2, "1/20"), **private),
        "absence, windows": lambda: case(hazards, window("r", "x", 2, "1/20"), **ABSENCE),
        "a stratum": lambda: case(
            hazards,
            window("r", "x", 2, "1/20", where={"region": "n"}),
            people=1000,
            attributes=TWO,
            open_=True,
            seed=4,
        ),
        "7 of 12 periods, windows": lambda: case(
            hazards, window("r", "x", 3, "1/50"), published_periods=7, seed=2
        ),
        "6 of 12 periods, totals": lambda: case(
            shocks, cumulative("r", "x", [1], "1/50"), published_periods=6, seed=2
        ),
        "a wave of 8 periods": lambda: case(
            hazards, window("r", "x", 3, "1/50", first="3", last="10"), seed=3
        ),
        "two attributes": lambda: case(
            spells,
            window("r", ["a", "b"], 2, "1/20"),
            values=4,
            periods=8,
            attributes={name: attribute([0, 1], missing=0) for name in ("a", "b")},
        ),
    }


class Scores:
    """Errors and intervals of a family of queries."""

    def __init__(self) -> None:
        self.squares: dict[str, list[Floats]] = defaultdict(list)
        self.covered: dict[str, list[Floats]] = defaultdict(list)
        self.lengths: list[Floats] = []
        self.plain: list[Floats] = []

    def add(
        self,
        truth: Floats,
        panel: Floats,
        unbiased: tuple[Floats, Floats],
        answer: tuple[Floats, Floats, Floats],
    ) -> None:
        """unbiased: values, errors. answer: values, low, high"""
        values = {"panel": panel, "unbiased": unbiased[0], "answer": answer[0]}
        for name, value in values.items():
            self.squares[name].append((value - truth) ** 2)
        self.covered["answer"].append((answer[1] <= truth) & (truth <= answer[2]))
        self.covered["unbiased"].append(np.abs(unbiased[0] - truth) <= QUANTILE * unbiased[1])
        self.lengths.append(answer[2] - answer[1])
        self.plain.append(2 * QUANTILE * unbiased[1])

    def rms(self, name: str) -> float:
        return float(np.sqrt(np.concatenate(self.squares[name]).mean()))

    def coverage(self, name: str) -> float:
        return float(np.concatenate(self.covered[name]).mean())

    @property
    def length(self) -> float:
        return float(np.concatenate(self.lengths).mean() / np.concatenate(self.plain).mean())


def queries(series: ReleaseSeries) -> Iterator[tuple[str, QuerySeries, Any]]:
    """The queries of a release by family, each with its mask of patterns, or its total."""
    layout, window_ = series.layout, series.layout.release.window
    if window_ is not None:
        q, width, unseen = window_.q, window_.width, window_.absent_pattern
        symbols = window_symbols(np.arange(window_.bins), q, width)
        for code in layout.patterns:
            mask = np.arange(window_.bins) == code
            yield "patterns", series.pattern(mask), mask
        for value in range(q - (window_.absent is not None)):
            hits = symbols == value
            yield "states", series.pattern(hits[:, -1]), hits[:, -1]
            for least in range(1, width + 1):
                mask = hits.sum(axis=1) >= least
                if mask.sum() > 1 and (unseen is None or not mask[unseen]):
                    yield "at least", series.pattern(mask), mask
    for b in range(1, layout.thresholds + 1):
        yield "totals", series.total(b), b


def true_counts(layout: SeriesLayout, symbols: np.ndarray, asked: Any) -> Floats:
    """The true counts of a query in all periods, 0 before the first."""
    release, counts = layout.release, np.zeros(layout.periods)
    if isinstance(asked, int):
        events = release.events if release.window is None else panel_codes(release)
        totals = np.isin(symbols, events).cumsum(axis=1)
        return (totals >= asked).sum(axis=0)[: layout.periods].astype(float)
    assert release.window is not None
    for t in range(layout.width, layout.periods + 1):
        codes = window_codes(symbols[:, t - layout.width : t], release.window.q)
        counts[t - 1] = asked[codes].sum()
    return counts


def publish(one: Case, seed: int) -> ReleaseSeries:
    """Publishes a panel with the noise of a seed, and reruns its mechanism."""
    declared = one.study.releases[0]
    log = PublicLog(
        log_in_memory(
            published(one.study, {declared.stream: one.symbols}, SeededNoise(seed), one.periods)
        )
    )
    stream, release = PanelAnswers(log).measured(declared.name)
    layout = SeriesLayout(release)
    reruns = rerun(layout, stream, log.panel(declared.name))
    answers = stream.answers(layout.questions(stream))
    return ReleaseSeries.of(layout, reruns, answers.values)


def judge(one: Case, series: ReleaseSeries, scores: dict[str, Scores]) -> None:
    """Adds all answers about a panel to the scores of their families."""
    layout, release = series.layout, series.layout.release
    weights, bound = learned_weights(series.workload()), largest_count(release)
    first, last = one.study.span(one.study.releases[0])
    symbols, people = one.symbols[:, first - 1 : last], len(one.symbols)
    for family, query, asked in queries(series):
        truth, live = true_counts(layout, symbols, asked), query.live
        chosen = Correction.best(query, weights)
        squares = chosen.inflation * (chosen.variances + chosen.biases) + chosen.rounding
        errors = np.sqrt(squares * (1 + chosen.family.guard))
        values = chosen.answers if chosen.exact else np.clip(chosen.answers, 0, bound)
        reach = chosen.family.factor * errors
        low, high = values - reach, values + reach
        if not chosen.exact:
            low, high = np.maximum(low, 0), np.minimum(high, bound)
        deviation = np.sqrt((query.unbiased**2).mean(axis=0))
        names = [family]
        if family == "states" and truth[live].mean() < RARE * people:
            names.append("rare states")
        for name in names:
            unbiased = query.estimates[live], deviation[live]
            answer = values[live], low[live], high[live]
            scores[name].add(truth[live], query.counts[live], unbiased, answer)
        few = live & (truth <= FEW)
        if few.any():
            answer = values[few], low[few], high[few]
            unbiased = query.estimates[few], deviation[few]
            scores["few"].add(truth[few], query.counts[few], unbiased, answer)
        if family == "states":
            _judge_changes(chosen, truth, bound, scores["changes"])


def _judge_changes(chosen: Correction, truth: Floats, bound: float, scores: Scores) -> None:
    """Changes of a state, since the first period and since the one before."""
    query, (times) = chosen.query, np.flatnonzero(chosen.query.live) + 1
    for last, first in [(t, times[0]) for t in times[1:]] + list(
        zip(times[2:], times[1:], strict=False)
    ):
        sides = (Estimate.of_count(Term(1.0, chosen, int(t)), bound) for t in (last, first))
        now, then = sides
        change = now.minus(then)
        error = np.sqrt(((query.unbiased[:, last - 1] - query.unbiased[:, first - 1]) ** 2).mean())

        def between(values: Floats, last: int = last, first: int = first) -> Floats:
            return np.array([values[last - 1] - values[first - 1]])

        answer = tuple(np.array([v]) for v in (change.value, *change.interval))
        if chosen.exact:
            value = between(query.estimates)
            answer = value, value - QUANTILE * error, value + QUANTILE * error
        scores.add(
            between(truth),
            between(query.counts),
            (between(query.estimates), np.array([error])),
            answer,
        )


def summed(scores: dict[str, Scores]) -> list[float]:
    """The cells of a panel in the table: over its families of queries, without the extracts."""
    families = [score for name, score in scores.items() if name not in EXTRACTS]
    panels = [max(score.rms("panel"), 1e-9) for score in families]
    default, unbiased = (
        [score.rms(name) / panel for score, panel in zip(families, panels, strict=True)]
        for name in ("answer", "unbiased")
    )
    covered = [score.coverage("answer") for score in families]
    return [
        float(np.exp(np.mean(np.log(default)))),
        max(default),
        float(np.exp(np.mean(np.log(unbiased)))),
        float(np.mean(covered)),
        min(covered),
        float(np.mean([score.length for score in families])),
    ]


def main() -> None:
    seeds = int(sys.argv[1]) if sys.argv[1:] else 10
    head = f"{'panel':<26}{'family':<12}{'error':>7}{'unbiased':>9}{'covered':>9}"
    print(f"{head}{'unbiased':>9}{'length':>8}", flush=True)
    rows = []
    for name, make in cases().items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        one, scores = make(), defaultdict(Scores)
        for seed in range(seeds):
            judge(one, publish(one, 1 + seed), scores)
        for family, score in scores.items():
            panel = max(score.rms("panel"), 1e-9)
            print(
                f"{name:<26}{family:<12}{score.rms('answer') / panel:>7.2f}"
                f"{score.rms('unbiased') / panel:>9.2f}{score.coverage('answer'):>9.1%}"
                f"{score.coverage('unbiased'):>9.1%}{score.length:>8.2f}",
                flush=True,
            )
            if sys.argv[2:]:
                covered = score.coverage("answer"), score.coverage("unbiased")
                record("family-coverage", f"{name}: {family}", *covered, score.length)
        rows.append(summed(scores))
        if not sys.argv[2:]:
            record("default-answers", name, *rows[-1])
    if not sys.argv[2:]:
        error, worst, unbiased, covered, least, length = map(np.array, zip(*rows, strict=True))
        means = [float(np.exp(np.log(ratios).mean())) for ratios in (error, unbiased)]
        whole = [means[0], worst.max(), means[1], covered.mean(), least.min(), length.mean()]
        record("default-answers", "all", *map(float, whole))
        print("all", *(f"{number:.3f}" for number in whole))


if __name__ == "__main__":
    main()
