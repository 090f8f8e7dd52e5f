"""The people whose panels `panels.py` compares with the paper's, and what is aimed at.

Poverty is simulated after published figures, submissions are real; the others are simulated here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from data_sets import data_file
from kit.markov_panels import markov_panel

from stream_dp.panel import Symbols
from stream_dp.services.evaluate import simulated_panels
from stream_dp.study import Neighbours

JUMP = 7
simulated = partial(simulated_panels.poverty, 1)


@dataclass(frozen=True)
class Case:
    """People, a window release of them, and a joint one at the same rho.

    truth: gives the (people, T) symbols
    limits: by quantity
    bound: of the rows under add_remove, or where people come and go
    absent: the symbol of those who are not there
    blank: the symbol before people enter, if they may enter late; their number is then measured
    jump: the period at which many change at once
    share: of the repetitions asked for, where one takes long
    """

    truth: Callable[[], Symbols]
    q: int
    width: int
    rho: str
    limits: dict[str, float]
    neighbours: Neighbours = "replace_one"
    bound: int | None = None
    absent: int | None = None
    blank: int | None = None
    jump: int | None = None
    share: float = 1.0

    def rows(self, truth: Symbols) -> int:
        return len(truth) if self.bound is None else self.bound


def neighbouring(seed: int, n: int, periods: int, states: int, stay: float) -> Symbols:
    """People in ordered states, most in the first, who move to a neighbouring one only."""
    rng = np.random.default_rng(seed)
    columns = [np.minimum(rng.geometric(0.45, n) - 1, states - 1)]
    for _ in range(periods - 1):
        step = np.where(rng.random(n) < stay, 0, rng.choice([-1, 1], n))
        columns.append(np.clip(columns[-1] + step, 0, states - 1))
    return np.stack(columns, axis=1).astype(np.uint8)


def with_rare_state() -> Symbols:
    """People in five states who stay in 9 of 10 periods; 1 % of them are in the last state."""
    rng, shares = np.random.default_rng(1), [0.55, 0.25, 0.12, 0.07, 0.01]
    columns = [rng.choice(5, 10_000, p=shares)]
    for _ in range(11):
        drawn = rng.choice(5, 10_000, p=shares)
        columns.append(np.where(rng.random(10_000) < 0.9, columns[-1], drawn))
    return np.stack(columns, axis=1).astype(np.uint8)


def visited_once() -> Symbols:
    """People in three states, of whom 3 % are in a fourth state at the eighth period alone."""
    rng = np.random.default_rng(22)
    shares = [0.6, 0.3, 0.1]
    state, columns = rng.choice(3, 10_000, p=shares), []
    for period in range(12):
        state = np.where(rng.random(10_000) < 0.92, state, rng.choice(3, 10_000, p=shares))
        visits = (period == JUMP) & (rng.random(10_000) < 0.03)
        columns.append(np.where(visits, 3, state))
    return np.stack(columns, axis=1).astype(np.uint8)


def late_transition() -> Symbols:
    """People in three states, who move from the first to the last from the eighth period on."""
    rng = np.random.default_rng(23)
    state, columns = rng.choice(3, 10_000, p=[0.7, 0.2, 0.1]), []
    for period in range(14):
        moved = np.where(state == 2, 2, rng.choice(2, 10_000))
        state = np.where(rng.random(10_000) < 0.95, state, moved)
        if period >= JUMP:
            state = np.where((state == 0) & (rng.random(10_000) < 0.02), 2, state)
        columns.append(state)
    return np.stack(columns, axis=1).astype(np.uint8)


def alternating() -> Symbols:
    """A poverty panel whose rates of becoming poor and of staying so differ from month to month."""
    rng, rates = np.random.default_rng(9), [(0.05, 0.97), (0.002, 0.6), (0.007, 0.95)]
    columns = [rng.random(23_374) < 0.12]
    for month in range(1, 12):
        fresh, (enter, stay) = rng.random(23_374), rates[month % 3]
        columns.append(np.where(columns[-1], fresh < stay, fresh < enter))
    return np.stack(columns, axis=1).astype(np.uint8)


def jumping() -> Symbols:
    """The poverty panel, where a tenth of the people become poor at one period, and stay so."""
    truth = simulated().copy()
    chosen = np.random.default_rng(1).random(len(truth)) < 0.1
    truth[chosen, JUMP - 1 :] = 1
    return truth


def submissions() -> Symbols:
    """Monthly submissions of students: 0 active, 1 submitted, 2 withdrawn."""
    path = data_file("oulad_submit_monthly.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    return table[:, 1:].astype(np.uint8)


def leaving(seed: int, n: int, periods: int, categories: int) -> Symbols:
    """People in categories who leave, 5 % at each period, and some of whom come later."""
    rng = np.random.default_rng(seed)
    truth = markov_panel(seed, n=n, periods=periods, symbols=categories, stay=0.8)
    come = np.where(rng.random(n) < 0.7, 0, rng.integers(0, periods, n))[:, None]
    leave = come + rng.geometric(0.05, n)[:, None]
    when = np.arange(periods)
    truth[(when < come) | (when >= leave)] = categories
    return truth


JOINT = {
    "joint: patterns": 1.0,
    "joint: worst pattern": 1.1,
    "joint: totals": 1.0,
    "joint: worst total": 1.1,
    "joint: total at least 1": 1.1,
}
poverty = partial(Case, q=2, width=3, rho="1/200")
CASES = {
    "poverty-replaced": poverty(
        simulated,
        limits=JOINT
        | {"patterns": 0.65, "at least 1": 0.27, "joint: patterns": 0.92, "joint: totals": 0.89},
    ),
    "poverty-added": poverty(
        simulated,
        limits=JOINT
        | {"patterns": 0.65, "at least 1": 0.45, "joint: patterns": 0.90, "joint: totals": 0.99},
        neighbours="add_remove",
        bound=25_000,
    ),
    "poverty-late": poverty(simulated, limits=JOINT, neighbours="add_remove", blank=0),
    "poverty-wide": Case(simulated, q=2, width=5, rho="1/200", limits={}),
    "alternating": poverty(alternating, limits={"patterns": 0.7331}),
    "jump": poverty(jumping, limits={"patterns, 3 periods later": 0.65}, jump=JUMP),
    "submissions": Case(
        submissions,
        q=3,
        width=3,
        rho="1/200",
        limits={"patterns": 0.70, "worst pattern": 1.1, **JOINT},
    ),
    "five-states": Case(
        lambda: markov_panel(3, n=1700, periods=7, symbols=5, stay=0.9),
        q=5,
        width=3,
        rho="1/100",
        limits={"patterns": 0.52, "worst pattern": 1.15, **JOINT},
    ),
    "five-neighbours": Case(
        lambda: neighbouring(3, n=1700, periods=7, states=5, stay=0.9),
        q=5,
        width=3,
        rho="1/100",
        limits={"patterns": 0.52, **JOINT},
    ),
    "five-long": Case(
        lambda: markov_panel(3, n=5000, periods=12, symbols=5, stay=0.9),
        q=5,
        width=3,
        rho="1/200",
        limits={},
    ),
    "visited-once": Case(visited_once, q=4, width=3, rho="1/200", limits={}),
    "late-transition": Case(late_transition, q=3, width=3, rho="1/200", limits={}),
    "five-rare": Case(
        with_rare_state,
        q=5,
        width=3,
        rho="1/200",
        limits={"patterns": 0.40, "worst pattern": 1.1, "at least 1 in the rarest": 0.35},
    ),
    "six-states": Case(
        lambda: neighbouring(2, n=5000, periods=72, states=6, stay=0.99),
        q=6,
        width=2,
        rho="1/20",
        limits={"patterns": 0.45, "worst pattern": 1.3},
        share=0.25,
    ),
    "leaving": Case(
        lambda: leaving(4, n=3000, periods=10, categories=7),
        q=8,
        width=2,
        rho="1/100",
        limits={"present, furthest from 1": 0.03},
        neighbours="add_remove",
        bound=4000,
        absent=7,
    ),
}
