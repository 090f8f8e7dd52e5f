"""Leads of heads over their children: their counts, their cost, and the answers of a model."""

from itertools import combinations_with_replacement, product

import jax
import numpy as np
import pytest
from grouped import CHILD, HEAD, OTHER, SPOUSE_ROLE, hierarchies, marginal_counts
from households import households, random_logits
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.hpd import product_answers
from stream_dp.batch.groups.hpd.model_arrays import encode_queries, model_layout, pack_queries
from stream_dp.batch.groups.mwem import contributions
from stream_dp.batch.groups.workload.candidates import relation_base
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.head_leads import band_starts, lead_columns
from stream_dp.batch.groups.workload.queries import FREE, LEAD, PERSON, Marginal, Queries
from stream_dp.batch.groups.workload.sensitivity import error_sensitivity, squared_sensitivity

ROLES = Roles(column="role", head=HEAD, spouse=SPOUSE_ROLE, child=CHILD, children=3)
ROLE = Column("role", (CHILD, OTHER, HEAD, SPOUSE_ROLE))
AGES = (30, "absent", 0, 15, 60, 45)  # in no order
FAMILIES = Domain(
    (Column("region", ("n", "s")),), (Column("sex", (1, 2)), ROLE, Column("age", AGES)), 6, ROLES
)
BANDS = ["below", "equal to", "1 above", "2 to 3 values above", "4 above"]


def band(head, children):
    """By hand: 0 below, 1 equal, 2 by one value, 3 by two or three, 4 by four; None without."""
    order = sorted(a for a in AGES if a != "absent")
    numbers = [order.index(a) for a in children if a != "absent"]
    if head == "absent" or not numbers:
        return None
    lead = order.index(head) - max(numbers)
    return 0 if lead < 0 else (1, 2, 3, 3, 4)[lead]


def counted(hierarchy):
    """(bands,) heads in each band, one by one."""
    counts = [0] * len(BANDS)
    role, age = (hierarchy.domain.person[c].values for c in (1, 2))
    for g in range(hierarchy.G):
        members = hierarchy.people[hierarchy.group_of == g].tolist()
        (head,) = (age[a] for _, r, a in members if role[r] == HEAD)
        found = band(head, [age[a] for _, r, a in members if role[r] == CHILD])
        if found is not None:
            counts[found] += 1
    return counts


@settings(max_examples=60)
@given(hierarchy=hierarchies(FAMILIES), memory=st.sampled_from([1, 1 << 20]))
def test_leads_are_counted_as_by_hand(hierarchy, memory):
    marginal = Marginal(FAMILIES, LEAD, person=(2,))
    assert marginal.shape == (len(BANDS),)
    assert marginal_counts(hierarchy, marginal, memory).tolist() == counted(hierarchy)
    backwards = marginal.queries().take(slice(None, None, -1))
    assert exact_answers(hierarchy, backwards, memory).tolist() == counted(hierarchy)[::-1]
    added = contributions(hierarchy, backwards).toarray()
    assert added.sum(axis=1).tolist() == counted(hierarchy)[::-1]
    for g in range(hierarchy.G):
        assert added[::-1, g].tolist() == counted(hierarchy.part(g, g + 1))


def test_a_person_moves_one_head_between_two_bands():
    """Brute force: every group of at most four members, every change of one of them."""
    marginal = Marginal(FAMILIES, LEAD, person=(2,))
    people = sorted(product((HEAD, SPOUSE_ROLE, CHILD), (0, 15, 30, 45, "absent")), key=str)

    def found(members):
        roles = [role for role, _ in members]
        if roles.count(HEAD) != 1 or roles.count(SPOUSE_ROLE) > 1:
            return "invalid"
        (head,) = (age for role, age in members if role == HEAD)
        return band(head, [age for role, age in members if role == CHILD])

    largest = 0, 0
    for size in range(1, 5):
        for members in combinations_with_replacement(people, size):
            before = found(members)
            for i, new in product(range(size), people):
                after = found((*members[:i], new, *members[i + 1 :]))
                if "invalid" in (before, after) or before == after:
                    continue
                moved = [1 for b in (before, after) if b is not None]
                largest = max(largest, (sum(m * m for m in moved), sum(moved)))
    assert largest == (squared_sensitivity(marginal), error_sensitivity(marginal)) == (2, 2)


SMALL = Domain(
    (),
    (Column("role", (HEAD, SPOUSE_ROLE, CHILD)), Column("age", (20, "absent", 0, 10, 30))),
    4,
    Roles(column="role", head=HEAD, spouse=SPOUSE_ROLE, child=CHILD, children=2),
)


@pytest.mark.parametrize("spread", [0.1, 1.5, 8.0])
def test_a_models_answers_are_sums_over_all_households(spread):
    layout = model_layout(SMALL)
    logits = random_logits(np.random.default_rng(1), layout, 2, spread)
    queries = Marginal(SMALL, LEAD, person=(1,)).queries()
    # Chunks of other kinds stand beside them.
    beside = Marginal(SMALL, PERSON, person=(1,)).queries()
    chunks, position = pack_queries(
        layout, encode_queries(layout, Queries.joined([queries, beside])), length=2
    )
    answers = jax.jit(product_answers.all_shares, static_argnums=0)(layout, logits, chunks)
    shares = np.asarray(answers).reshape(-1)[position]
    expected, people = np.zeros(len(shares)), 0.0
    joined, count = Queries.joined([queries, beside]), {}
    for chance, group, codes in households(layout, logits):
        if (key := codes.tobytes()) not in count:
            table = Hierarchy(SMALL, np.array([group]), codes, np.zeros(len(codes), int))
            count[key] = exact_answers(table, joined)
        expected += chance * count[key]
        people += chance * len(codes)
    assert np.allclose(shares, expected / people, rtol=2e-5, atol=1e-7)
    assert shares[0] == pytest.approx(expected[0] / people, rel=2e-5)


def test_columns_of_numbers_have_leads():
    def columns(*values):
        people = (ROLE, *(Column(f"c{i}", v) for i, v in enumerate(values)))
        return lead_columns(Domain((), people, 6, ROLES))

    assert columns((1, 2, 3, 4), (4, 2, 3, 1)) == {1: (0, 1, 2, 3), 2: (3, 1, 2, 0)}
    assert columns((1, 2), (1, 2, 3), (1, 2, 3, "absent"), (1, 2, 3, 4, "none")) == {}
    assert columns(("absent", 9, 7, 8, 6)) == {1: (4, 2, 3, 1)}
    assert lead_columns(Domain((), (Column("age", (0, 1, 2, 3)),), 6)) == {}
    assert [band_starts(n) for n in (4, 5, 6, 9, 18)] == [
        (0, 1, 2),
        (0, 1, 2, 4),
        (0, 1, 2, 4),
        (0, 1, 2, 4, 8),
        (0, 1, 2, 4, 8, 16),
    ]


def test_leads_in_words():
    marginal = Marginal(FAMILIES, LEAD, person=(2,))
    assert marginal.text == "heads with a child: age against the children's highest"
    queries = marginal.queries()
    assert [queries.text(i, FAMILIES) for i in range(marginal.size)] == [
        f"heads with a child: age {text} the children's highest" for text in BANDS
    ]
    assert marginal.text in [m.text for m in relation_base(FAMILIES)]


@pytest.mark.parametrize(
    ("group", "person", "relative"),
    [
        ([FREE, FREE], [FREE, FREE, FREE], [FREE, FREE, FREE]),
        ([FREE, FREE], [FREE, FREE, 5], [FREE, FREE, FREE]),
        ([FREE, FREE], [1, FREE, FREE], [FREE, FREE, FREE]),
        ([FREE, FREE], [1, FREE, 1], [FREE, FREE, FREE]),
        ([0, FREE], [FREE, FREE, 1], [FREE, FREE, FREE]),
        ([FREE, FREE], [FREE, FREE, 1], [FREE, FREE, 1]),
    ],
)
def test_queries_about_leads_that_mean_nothing_are_refused(group, person, relative):
    with pytest.raises(ValueError, match="leads"):
        Queries([LEAD], [group], [person], [relative]).check(FAMILIES)
    columns = [tuple(np.flatnonzero(np.array(t) >= 0).tolist()) for t in (group, person, relative)]
    if columns != [(), (2,), ()]:
        with pytest.raises(ValueError, match="leads"):
            Marginal(FAMILIES, LEAD, *columns)
