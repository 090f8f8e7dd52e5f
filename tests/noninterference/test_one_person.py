"""Change everything about one person: nobody else is treated otherwise, but for one swap."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.killed import in_memory
from kit.panels import LABELS, PARTITIONS, PERIODS, StudyFolder, declaration

from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.study import Study
from stream_dp.studyfile import load_study

X = "x"
OTHERS = [f"other-{i}" for i in range(9)]

Sent = tuple[int, int, int, bytes]  # period in which it comes, partition, place, the record


CLOSED = "closed"
Size = int | str | None


def study(size: Size) -> Study:
    number = size if isinstance(size, int) else None
    neighbours = "add_remove" if number is None else "replace_one"
    with in_memory() as folder:
        text = declaration(neighbours=neighbours, size=number, closed=size == CLOSED)
        return load_study(StudyFolder(folder / "x", text).file)[0]


STUDIES: dict[Size, Study] = {size: study(size) for size in (None, CLOSED, 1, 4, 8, 9, 10, 20)}


def encoded(person: object, period: object, values: object) -> bytes:
    return json.dumps({"person": person, "period": period, "values": values}).encode()


values = st.fixed_dictionaries(
    {},
    optional={
        "poverty": st.sampled_from([0, 1, "1", None, 7, [1]]),
        "work": st.sampled_from(["yes", "no", None, "maybe", 1.5]),
        "wealth": st.just(1),
    },
)
periods = st.sampled_from([*LABELS, "1999-01", 3])
report = st.builds(encoded, st.just(X), periods, values)
record = report | st.binary(max_size=6) | st.just(b'{"person": "x"}')
sent = st.lists(
    st.tuples(st.integers(1, PERIODS), st.integers(0, PARTITIONS - 1), st.integers(0, 30), record),
    max_size=14,
)


@cache
def of_others(seed: int) -> list[Sent]:
    """Reports of the others: some in two partitions, some late, some ahead, some unusable."""
    rng = np.random.default_rng(seed)
    sent: list[Sent] = []
    for person in OTHERS:
        for number in range(int(rng.integers(1, 4)), PERIODS + 1):
            answers = {
                "poverty": int(rng.integers(3)),
                "work": ["yes", "no", None][rng.integers(3)],
            }
            about = LABELS[min(PERIODS, max(1, number + int(rng.integers(-1, 3)))) - 1]
            sent.append((number, int(rng.integers(2)), 0, encoded(person, about, answers)))
    return sent


def treated(declared: Study, seed: int, own: Sequence[Sent]) -> tuple[list[Any], list[Any]]:
    """After every close: everybody's state by id, and which records of others were rejected."""
    population, decoder = Population(declared), Decoder(declared, b"k" * 32)
    states, refusals = [], []
    offsets = [0] * PARTITIONS
    for number in range(1, PERIODS + 1):
        for partition in range(PARTITIONS):
            line = [(False, r[3]) for r in of_others(seed) if r[:2] == (number, partition)]
            for when, where, place, data in own:
                if (when, where) == (number, partition):
                    line.insert(place, (True, data))
            start = offsets[partition]
            offsets[partition] += len(line)
            batch = [
                Stored(partition=partition, offset=start + i, time=0, key=None, value=r, headers=())
                for i, (_, r) in enumerate(line)
            ]
            cells, rejected = decoder.decode(batch, population.period)
            refusals += [(line[r.row][1], r.cells) for r in rejected if not line[r.row][0]]
            population.fold(cells, rejected)
        population.close()
        states.append({person: state(population, decoder, person) for person in [X, *OTHERS]})
    return states, sorted(refusals, key=repr)


def state(population: Population, decoder: Decoder, person: str) -> Any:
    """A person's recent symbols and running totals, None where there is no place for them."""
    ((hi, lo),) = decoder.hashes([person])
    (slot,) = population.slots(np.array([hi]), np.array([lo]))
    if slot < 0:
        return None
    columns = population.columns
    return {name: int(column[slot]) for name, column in columns.items()}


@pytest.mark.parametrize("size", STUDIES)
@settings(max_examples=10)
@given(seed=st.integers(0, 5), one=sent, other=sent)
def test_every_other_person_stays_as_they_are(
    size: Size, seed: int, one: list[Sent], other: list[Sent]
) -> None:
    declared = STUDIES[size]
    (a, refused_a), (b, refused_b) = treated(declared, seed, one), treated(declared, seed, other)
    assert refused_a == refused_b
    swapped = set()
    for first, second in zip(a, b, strict=True):
        changed = [p for p in OTHERS if first[p] != second[p]]
        for person in changed:
            # Never another history: a place, or none.
            assert (first[person] is None) != (second[person] is None)
        swapped |= set(changed)
        if isinstance(size, int):
            numbers = [sum(x is not None for x in states.values()) for states in (first, second)]
            assert max(numbers) <= size
    assert len(swapped) <= int(isinstance(size, int) and size <= len(OTHERS))


def test_a_newcomer_to_a_closed_cohort_is_refused_alone() -> None:
    """Who comes late, with whatever reports, leaves everybody's state and counts as they are."""
    declared = STUDIES[CLOSED]
    assert declared.last_entry == 1
    late = [(n, 0, 0, encoded(X, LABELS[n - 1], {"work": "yes"})) for n in range(2, PERIODS + 1)]
    early = [(1, 0, 0, encoded(X, LABELS[0], {"work": None})), *late]
    for own in (late, early):
        for seed in range(6):
            states, refused = treated(declared, seed, own)
            none, refused_without = treated(declared, seed, [])
            assert (states, refused) == (none, refused_without)
            assert all(state[X] is None for state in states)
            for with_x, without in zip(
                closes(declared, seed, own), closes(declared, seed, []), strict=True
            ):
                assert with_x.keys() == without.keys()
                assert all((with_x[k] == without[k]).all() for k in without)


@settings(max_examples=30)
@given(seed=st.integers(0, 5), own=sent)
def test_who_is_refused_stays_refused(seed: int, own: list[Sent]) -> None:
    states, _ = treated(STUDIES[4], seed, own)
    for before, after in pairwise(states):
        full = sum(x is not None for x in before.values()) == 4
        for person in before:
            assert before[person] is None or after[person] is not None
            assert not full or (before[person] is None) == (after[person] is None)


def test_a_swap_does_happen() -> None:
    """The property above is not empty: one person's coming can take another one's place."""
    own = [(1, 0, 0, encoded(X, LABELS[0], {"work": "yes"}))]
    swaps = 0
    for size in (1, 4, 8):
        (with_x, _), (without, _) = (treated(STUDIES[size], 0, one) for one in (own, []))
        swaps += sum(with_x[-1][p] != without[-1][p] for p in OTHERS)
    assert swaps > 0


@pytest.mark.parametrize("size", [4, 20])
@settings(max_examples=20)
@given(seed=st.integers(0, 3), one=sent, other=sent)
def test_the_counts_move_by_one_history(
    size: int, seed: int, one: list[Sent], other: list[Sent]
) -> None:
    """What replace_one promises: at every period the histograms differ by one person's move."""
    for a, b in zip(*(closes(STUDIES[size], seed, own) for own in (one, other)), strict=True):
        assert np.abs(a["pairs"] - b["pairs"]).sum() in (0, 2)
        assert np.abs(a["working"] - b["working"]).max() <= 1


def closes(declared: Study, seed: int, own: Sequence[Sent]) -> list[dict[str, Any]]:
    population, decoder = Population(declared), Decoder(declared, b"k" * 32)
    released, offset = [], 0
    for number in range(1, PERIODS + 1):
        records = [r for r in [*of_others(seed), *own] if r[0] == number]
        batch = [
            Stored(partition=r[1], offset=offset + i, time=0, key=None, value=r[3], headers=())
            for i, r in enumerate(records)
        ]
        offset += len(batch)
        population.fold(*decoder.decode(batch, population.period))
        released.append(population.close().counts)
    return released
