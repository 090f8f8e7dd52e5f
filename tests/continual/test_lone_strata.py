"""A lone stratum under replacement is charged its exact maximum, by all pairs of people.

A person outside of the stratum counts as absent in every period. So all pairs of histories with
absences include those of which one person is outside.
"""

import itertools

import numpy as np
import pytest
from kit import counter_contract
from kit.studies import attribute, small_study
from kit.walks import counts_of

from stream_dp.continual.mechanisms import mechanism, patterns_part, totals_part

RHO = 0.1
KINDS = {
    "window 1": {"kind": "window", "width": 1},
    "window 2": {"kind": "window", "width": 2},
    "histogram": {"kind": "window", "width": 2, "strategy": "histogram"},
    "totals": {"kind": "cumulative", "event": [1]},
    "totals and entries": {"kind": "cumulative", "event": [1], "size_share": "1/5"},
    "trees": {"kind": "cumulative", "event": [1], "counter": "tree"},
    "joint": {"kind": "joint", "event": [1], "width": 2},
    "joint 1": {"kind": "joint", "event": [1], "width": 1},
}


def form(kind, horizon, regions=("north",)):
    """The mechanism of a release of the region north, where `regions` are released."""
    release = {"attribute": "poor", "rows": 30, "rho": str(RHO), **kind}
    study = small_study(
        name="layers",
        neighbours="replace_one",
        delta="1/1000",
        periods={"first": 1, "every": "step", "count": horizon},
        size=40,
        attributes={
            "poor": attribute([0, 1], missing="absent"),
            "region": attribute(["north", "south"], missing="absent", fixed=True),
        },
        releases=[{"name": region, "where": {"region": region}, **release} for region in regions],
    )
    return mechanism(study, study.releases[0])


def deviations(release, symbols):
    """Everything that meets noise by period, in deviations: squared changes are costs."""
    by_period = [[np.zeros(0)] for _ in range(symbols.shape[1])]
    window, totals = patterns_part(release), totals_part(release)
    if window is not None:
        for t, measured in enumerate(by_period, 1):
            demand = window.demand(t)
            if demand:
                values = window.measure(t, counts_of(window, symbols, t))
                measured.append(values / noise(demand))
    if totals is not None:
        seen = symbols if totals.present else (symbols == 1).astype(int)
        of_periods = counter_contract.measured(totals, seen)
        for t, (measured, values) in enumerate(zip(by_period, of_periods, strict=True), 1):
            measured.append(values / noise(totals.demand(t)))
    return [np.concatenate(measured) for measured in by_period]


def noise(demand):
    """The square root of twice the variance of each answer."""
    return np.concatenate([np.full(size, float(2 * v) ** 0.5) for v, size in demand])


def worst_costs(release, horizon):
    """The largest cost of periods 1..t over all pairs of people, for every t."""
    outside = deviations(release, np.full((1, horizon), 2))
    people = [
        deviations(release, np.array([history]))
        for history in itertools.product(range(3), repeat=horizon)
    ]
    distances, worst = np.zeros((len(people),) * 2), []
    for t in range(horizon):
        changes = np.stack([person[t] - outside[t] for person in people])
        products = changes @ changes.T
        own = products.diagonal()
        distances += own[:, None] + own - 2 * products
        worst.append(distances.max())
    return np.array(worst)


@pytest.mark.parametrize("horizon", [2, 5])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_lone_stratum_costs_what_is_charged(kind, horizon):
    release = form(kind, horizon)
    charged = np.cumsum([float(charge) for charge in release.charges])
    worst = worst_costs(release, horizon)
    assert charged[-1] == pytest.approx(RHO)
    first = kind.get("width", 1) - 1  # before it a panel measures nothing
    assert (worst[first:] <= charged[first:] * (1 + 1e-9)).all()
    # The sum of a joint panel's two costs is an upper bound.
    assert worst[-1] >= (0.97 if kind["kind"] == "joint" else 0.98) * charged[-1]


@pytest.mark.parametrize("kind", ["totals", "totals and entries", "trees"])
def test_one_stratum_among_several_pays_for_coming_or_going_twice(kind):
    """A person who moves leaves one stratum and enters another: each release shows half of it."""
    several = form(KINDS[kind], 5, ("north", "south"))
    moved, changed = 2 * worst_presence(several, 5), worst_costs(several, 5)[-1]
    assert max(moved, changed) == pytest.approx(RHO)
    if kind == "trees":  # here a move is the worst, so that a lone stratum needs less noise
        assert changed < 0.9 * worst_costs(form(KINDS[kind], 5), 5)[-1]


def worst_presence(release, horizon):
    """The largest cost of all periods for a person who is in the stratum or not."""
    outside = np.concatenate(deviations(release, np.full((1, horizon), 2)))
    people = itertools.product(range(3), repeat=horizon)
    changes = [np.concatenate(deviations(release, np.array([p]))) - outside for p in people]
    return max(change @ change for change in changes)


def test_a_lone_stratum_never_has_less_noise_than_a_coming_or_going_needs():
    for kind in KINDS.values():
        assert worst_presence(form(kind, 4), 4) <= RHO * (1 + 1e-9)
