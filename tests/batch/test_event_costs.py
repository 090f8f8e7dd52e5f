"""What a person with all events costs: every change of one person, by brute force."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from grouped import marginal_counts

from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.workload.candidates import (
    marginal_workload,
)
from stream_dp.batch.groups.workload.queries import GROUP, PERSON, all_marginals
from stream_dp.batch.groups.workload.sensitivity import error_sensitivity, squared_sensitivity
from stream_dp.errors import UserError


def domain(people=(2,), events=(2,), most=2):
    def columns(letter, sizes):
        return tuple(Column(f"{letter}{i}", tuple(range(n))) for i, n in enumerate(sizes))

    return Domain(columns("p", people), columns("e", events), most, events=True)


def persons(declared):
    """Every person with all events: the codes of the person, and of each event."""
    events = [*product(*(range(n) for n in declared.person_values))]
    for own in product(*(range(n) for n in declared.group_values[:-1])):
        for size in range(declared.most + 1):
            for several in combinations_with_replacement(events, size):
                yield own, several


def table(declared, *people):
    """People with their events."""
    groups = [[*own, len(events)] for own, events in people]
    members = [event for _, events in people for event in events]
    group_of = np.repeat(np.arange(len(people)), [len(events) for _, events in people])
    codes = np.array(members, np.int64).reshape(-1, len(declared.person_values))
    return Hierarchy(declared, np.array(groups), codes, group_of)


DOMAINS = {
    "two values": domain(),
    "one value each": domain(people=(1,), events=(1,)),
    "no column of people": domain(people=(), events=(3,)),
    "many kinds of events": domain(people=(1,), events=(2, 3), most=3),
    "one event": domain(events=(3,), most=1),
    "few kinds of events": domain(people=(2, 2), events=(2,), most=3),
}
LEVELS = GROUP, PERSON


@pytest.mark.parametrize("which", DOMAINS)
def test_no_person_moves_more_and_some_person_moves_as_much(which):
    declared = DOMAINS[which]
    known = [table(declared, person) for person in persons(declared)]
    for ways in (1, 2, 3):
        for marginal in all_marginals(declared, ways, LEVELS):
            counts = np.array([marginal_counts(one, marginal) for one in known])
            moved = abs(counts[:, None] - counts[None])
            assert (moved**2).sum(axis=2).max() == squared_sensitivity(marginal), marginal.text
            assert moved.sum(axis=2).max() == error_sensitivity(marginal), marginal.text


def test_a_person_without_events_is_counted():
    declared = domain(people=(2,), events=(2,), most=2)
    truth = table(declared, ((0,), ()), ((0,), ((1,), (1,))), ((1,), ()))
    texts = Counter()
    for marginal in all_marginals(declared, 1, LEVELS):
        counts = marginal_counts(truth, marginal)
        queries = marginal.queries()
        texts.update({queries.text(i, declared): int(n) for i, n in enumerate(counts)})
    assert texts["people: p0=0"] == 2
    assert texts["people: size=0"] == 2
    assert texts["people: e0=1"] == 1
    assert texts["events: e0=1"] == 2
    assert texts["events: p0=1"] == 0


def test_events_have_no_roles_and_their_number_has_a_bound():
    with pytest.raises(ValueError, match="size is not the number"):
        Hierarchy(domain(), [[0, 1]], np.zeros((2, 1), np.int64), np.zeros(2))
    with pytest.raises(ValueError, match="not between 0 and 2"):
        Hierarchy(domain(), [[0, 2]], np.zeros((3, 1), np.int64), np.zeros(3))
    with pytest.raises(UserError, match="declare at least one"):
        domain(events=())


def test_scores_of_columns_with_many_different_numbers_of_values_fit_in_64_bits():
    """Their least common multiple has 84 bits. Counts and noise are as large as can be."""
    values = (7, 9, 11, 13, 16, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
    declared = domain(people=(2,), events=values, most=64)
    work = marginal_workload(all_marginals(declared, 1, LEVELS))
    changes = [int(w) * c for w, c in zip(work.weights, work.change, strict=True)]
    assert work.sensitivity == max(changes)
    assert min(changes) > 0.999 * max(changes)
    true, none = np.full(len(work.queries), 10**14), np.zeros(len(work.queries))
    numbers = range(work.candidates)
    high = work.scores(numbers, true, none, [0.0] * len(numbers))
    low = work.scores(numbers, 0 * true, none, [1e14] * len(numbers))
    assert (low < 0).all()
    assert (high > 0).all()
