"""Answers of queries on groups and their members: against a count person by person."""

from math import comb

import grouped
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.workload import exact_counts as exact
from stream_dp.batch.groups.workload.queries import (
    FREE,
    GROUP,
    HAS_CHILD,
    HAS_PARENT,
    PERSON,
    SPOUSE,
    Marginal,
    Queries,
    all_marginals,
)

DOMAINS = {"alike": grouped.ALIKE, "related": grouped.RELATED}
LEVELS = {"alike": (GROUP, PERSON), "related": range(5)}


@pytest.mark.parametrize("name", DOMAINS)
@given(data=st.data())
def test_answers_are_what_a_plain_count_finds(name, data):
    hierarchy = data.draw(grouped.hierarchies(DOMAINS[name]))
    queries = data.draw(grouped.query_lists(DOMAINS[name]))
    answers = exact.exact_answers(hierarchy, queries)
    assert answers.dtype == np.int64
    assert answers.tolist() == [grouped.count(hierarchy, queries, i) for i in range(len(queries))]


@pytest.mark.parametrize("name", DOMAINS)
@settings(max_examples=20)
@given(data=st.data())
def test_small_portions_say_the_same(name, data):
    hierarchy = data.draw(grouped.hierarchies(DOMAINS[name]))
    k = data.draw(st.integers(0, 3))
    marginals = all_marginals(DOMAINS[name], k, LEVELS[name])
    queries = Queries.joined(m.queries() for m in (*marginals, Marginal(DOMAINS[name], GROUP)))
    answers = exact.exact_answers(hierarchy, queries)
    assert answers.tolist() == exact.exact_answers(hierarchy, queries, memory=1).tolist()


@settings(max_examples=20)
@given(hierarchy=grouped.hierarchies(grouped.RELATED), limit=st.sampled_from([1, 8, 100]))
def test_codes_too_large_for_64_bits_are_renumbered(hierarchy, limit):
    marginals = all_marginals(grouped.RELATED, 3, range(5), ["region", "sex", "age"])
    queries = Queries.joined(m.queries() for m in marginals)
    usual = exact.exact_answers(hierarchy, queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_LIMIT", limit)
        assert exact.exact_answers(hierarchy, queries).tolist() == usual.tolist()


@pytest.mark.parametrize("limit", [1 << 62, 30])
def test_groups_of_very_many_members(limit, monkeypatch):
    monkeypatch.setattr(exact, "_LIMIT", limit)
    domain = Domain(grouped.ALIKE.group, grouped.ALIKE.person, 60)
    rng, sizes = np.random.default_rng(2), np.array([40, 1, 60, 3])
    groups = np.column_stack([[0, 1, 0, 0], [1, 0, 0, 1], sizes - 1])
    group_of = np.repeat(np.arange(4), sizes)
    people = np.column_stack([rng.integers(0, 2, 104), rng.integers(0, 3, 104)])
    hierarchy = Hierarchy(domain, groups, people, group_of)
    queries = Queries.joined(m.queries() for m in all_marginals(domain, 2, [GROUP, PERSON]))
    expected = [grouped.count(hierarchy, queries, i) for i in range(len(queries))]
    assert exact.exact_answers(hierarchy, queries).tolist() == expected


def test_queries_of_very_many_values_are_looked_up():
    rng = np.random.default_rng(1)
    wide = tuple(Column(f"c{i}", tuple(range(20_000))) for i in range(6))
    domain = Domain((), wide, 1)
    people = rng.integers(0, 20_000, (500, 6))
    hierarchy = Hierarchy(domain, np.zeros((500, 1), int), people, np.arange(500))
    assert hierarchy.people.dtype == np.uint16
    wanted = np.concatenate([people, people[:100] + 1]) % 20_000
    none = np.full((600, 6), FREE)
    queries = Queries(np.full(600, PERSON), none[:, :1], wanted, none)
    expected = [int((people == w).all(axis=1).sum()) for w in wanted]
    assert exact.exact_answers(hierarchy, queries).tolist() == expected
    assert sum(expected) == 500


def test_queries_in_words():
    query = Queries([HAS_CHILD], [[1, FREE]], [[FREE, 0, FREE]], [[FREE, FREE, 2]])
    words = "people with a child: region=s, sex=1; who has age=old"
    assert query.text(0, grouped.RELATED) == words
    assert Marginal(grouped.RELATED, GROUP).queries().text(0, grouped.RELATED) == "groups"
    marginal = Marginal(
        domain=grouped.RELATED, level=SPOUSE, group=(1,), person=(1,), relative=(1, 2)
    )
    assert marginal.text == "people with a spouse: size, sex; who has sex, age"


def test_cells_of_a_marginal_run_with_the_last_column_fastest():
    marginal = Marginal(grouped.ALIKE, PERSON, (1,), (0, 1))
    assert (marginal.shape, marginal.size) == ((2, 2, 3), 12)
    queries = marginal.queries()
    assert queries.group[:, 1].tolist() == [0] * 6 + [1] * 6
    assert queries.person[:, 0].tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert queries.person[:, 1].tolist() == [0, 1, 2] * 4
    assert (queries.group[:, [0, 2]] == FREE).all()
    some = marginal.queries(np.array([7, 3]))
    assert some.person.tolist() == queries.take(np.array([7, 3])).person.tolist()


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_every_choice_of_attributes_is_there_once(k):
    alike = all_marginals(grouped.ALIKE, k, [GROUP, PERSON])
    assert len(set(alike)) == len(alike) == 2 * comb(5, k)
    related = all_marginals(grouped.RELATED, k, [SPOUSE])
    # Of 8 attributes, less those sets without the relative's 3.
    assert len(set(related)) == len(related) == comb(8, k) - comb(5, k)
    some = all_marginals(grouped.RELATED, k, [HAS_PARENT], ["size", "sex"])
    assert len(some) == comb(3, k) - comb(2, k)
    assert all(m.relative == (1,) for m in some)


def _rows(queries):
    return np.column_stack([queries.level, queries.group, queries.person, queries.relative])


@pytest.mark.parametrize(
    ("level", "group", "person", "relative", "fault"),
    [
        (7, [FREE] * 2, [FREE] * 3, [FREE] * 3, "none of the seven"),
        (PERSON, [FREE] * 2, [FREE] * 3, [FREE, 1, FREE], "no targets of relatives"),
        (PERSON, [FREE] * 2, [FREE] * 3, [FREE] * 2, "columns of a person"),
        (PERSON, [-2, 0], [FREE] * 3, [FREE] * 3, "a code, or -1"),
        (PERSON, [FREE, 6], [FREE] * 3, [FREE] * 3, "outside its column"),
        (PERSON, [FREE], [FREE] * 3, [FREE] * 3, "differ in their columns"),
    ],
)
def test_queries_that_mean_nothing_are_refused(level, group, person, relative, fault):
    with pytest.raises(ValueError, match=fault):
        Queries([level], [group], [person], [relative]).check(grouped.RELATED)


def test_relations_need_roles_and_marginals_columns():
    with pytest.raises(ValueError, match="roles"):
        Queries([SPOUSE], [[FREE] * 3], [[FREE] * 2], [[FREE] * 2]).check(grouped.ALIKE)
    with pytest.raises(ValueError, match="roles"):
        Marginal(grouped.ALIKE, SPOUSE, relative=(0,))
    with pytest.raises(ValueError, match="relatives"):
        Marginal(grouped.RELATED, PERSON, relative=(0,))
    with pytest.raises(ValueError, match="increasing"):
        Marginal(grouped.ALIKE, PERSON, person=(1, 0))
    with pytest.raises(ValueError, match="increasing"):
        Marginal(grouped.ALIKE, PERSON, group=(3,))
    with pytest.raises(ValueError, match="hats"):
        all_marginals(grouped.ALIKE, 1, [PERSON], ["hats"])
    with pytest.raises(ValueError, match="seven"):
        Marginal(grouped.ALIKE, 7)
