"""Change everything about one person, strata included: nobody else's state or counts move."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.strata import KEY, PERIODS, STUDIES

from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.study import Study

X = "x"
OTHERS = [f"other-{i}" for i in range(9)]
VALUES: dict[str, list[Any]] = {
    "poor": [0, 1, None],
    "job": ["yes", "no", None],
    "region": ["north", "south", None],
    "wave": [1, 2, None],
}

Sent = tuple[int, int, int, bytes]  # period in which it comes, partition, place, the record


def encoded(person: str, period: str, values: object) -> bytes:
    return json.dumps({"person": person, "period": period, "values": values}).encode()


values = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([*known, "?", 1.5]) for name, known in VALUES.items()}
)
report = st.builds(encoded, st.just(X), st.sampled_from([*PERIODS, "9"]), values)
record = report | st.binary(max_size=4)
sent = st.lists(
    st.tuples(st.integers(1, len(PERIODS)), st.integers(0, 1), st.integers(0, 30), record),
    max_size=14,
)


@cache
def of_others(seed: int) -> list[Sent]:
    """Reports of the others; some contradict the stratum that they have."""
    rng = np.random.default_rng(seed)
    sent: list[Sent] = []
    for person in OTHERS:
        for number in range(int(rng.integers(1, 4)), len(PERIODS) + 1):
            answers = {n: v[int(rng.integers(3))] for n, v in VALUES.items() if rng.random() < 0.6}
            about = PERIODS[min(len(PERIODS), max(1, number + int(rng.integers(-1, 3)))) - 1]
            sent.append((number, int(rng.integers(2)), 0, encoded(person, about, answers)))
    return sent


def treated(study: Study, seed: int, own: Sequence[Sent]) -> tuple[list[Any], Any, Any]:
    """After every close: everybody's state by id; the cells of others that were turned away, by
    reason; the counts by release."""
    population, decoder = Population(study), Decoder(study, KEY)
    named = {tuple(h): p for p, h in zip(OTHERS, decoder.hashes(OTHERS).tolist(), strict=True)}
    states, counts, offsets = [], [], [0, 0]
    refused: list[tuple[int, str, str]] = []
    for number in range(1, len(PERIODS) + 1):
        for partition in range(2):
            line = [r[3] for r in of_others(seed) if r[:2] == (number, partition)]
            for when, where, place, data in own:
                if (when, where) == (number, partition):
                    line.insert(place, data)
            start, offsets[partition] = offsets[partition], offsets[partition] + len(line)
            batch = [
                Stored(partition=partition, offset=start + i, time=0, key=None, value=r, headers=())
                for i, r in enumerate(line)
            ]
            population.fold(*decoder.decode(batch, population.period))
        closed = population.close()
        counts.append(closed.counts)
        for reason, cells in closed.refused.items():
            ids = zip(cells.hi.tolist(), cells.lo.tolist(), strict=True)
            refused += [(number, reason, named[key]) for key in ids if key in named]
        states.append(_states(population, decoder))
    return states, Counter(refused), counts


def _states(population: Population, decoder: Decoder) -> dict[str, Any]:
    """By id, the state of a person; None where there is no place."""
    states: dict[str, Any] = {}
    hashes = decoder.hashes([X, *OTHERS])
    slots = population.slots(hashes[:, 0], hashes[:, 1]).tolist()
    for person, slot in zip([X, *OTHERS], slots, strict=True):
        states[person] = None
        if slot >= 0:
            columns = population.columns
            states[person] = {name: int(column[slot]) for name, column in columns.items()}
    return states


OPEN = [name for name, study in STUDIES.items() if study.size is None]
BOUNDED = [name for name, study in STUDIES.items() if study.size is not None]


@pytest.mark.parametrize("name", OPEN)
@settings(max_examples=6)
@given(seed=st.integers(0, 5), one=sent, other=sent)
def test_nobody_elses_state_moves(name: str, seed: int, one: list[Sent], other: list[Sent]) -> None:
    (a, refused_a, _), (b, refused_b, _) = (treated(STUDIES[name], seed, x) for x in (one, other))
    assert refused_a == refused_b
    for first, second in zip(a, b, strict=True):
        assert all(first[person] == second[person] for person in OTHERS)


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=6)
@given(seed=st.integers(0, 5), one=sent, other=sent)
def test_where_places_are_few_one_other_may_swap(
    name: str, seed: int, one: list[Sent], other: list[Sent]
) -> None:
    (a, refused_a, _), (b, refused_b, _) = (treated(STUDIES[name], seed, x) for x in (one, other))
    swapped = set()
    for first, second in zip(a, b, strict=True):
        for person in OTHERS:
            if first[person] != second[person]:
                # A place, or none: never another state.
                assert (first[person] is None) != (second[person] is None)
                swapped.add(person)
    assert len(swapped) <= 1
    apart = (refused_a - refused_b) + (refused_b - refused_a)
    assert {person for _, _, person in apart} <= swapped


@pytest.mark.parametrize("name", STUDIES)
@settings(max_examples=6)
@given(seed=st.integers(0, 3), one=sent, other=sent)
def test_counts_move_by_one_history(
    name: str, seed: int, one: list[Sent], other: list[Sent]
) -> None:
    """At every period by one window, and in one stratum, or two, of an attribute."""
    study = STUDIES[name]
    (_, _, a), (_, _, b) = (treated(study, seed, x) for x in (one, other))
    for first, second in zip(a, b, strict=True):
        moved = {release: first[release] - second[release] for release in first}
        for release in study.releases:
            if release.kind == "window":
                bins = len(study.alphabet(release).values) ** release.width
                patterns, present = np.split(moved[release.name], [bins])
                assert np.abs(patterns).sum() <= 2
                assert np.abs(present).sum() <= 2
            else:
                assert np.abs(moved[release.name]).max(initial=0) <= 1
    for attribute in ("region", "wave"):
        layers = [r.name for r in study.releases if attribute in (r.where or {})]
        touched = {
            study.strata[layer][1]
            for layer in layers
            if any((x[layer] != y[layer]).any() for x, y in zip(a, b, strict=True))
        }
        assert len(touched) <= 2


def test_others_are_turned_away_for_reasons_of_their_own() -> None:
    """The property above is not empty."""
    _, refused, _ = treated(STUDIES["bounded"], 1, [])
    assert {reason for _, reason, _ in refused} == {"full", "fixed"}
