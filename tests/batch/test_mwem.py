"""MWEM: the same as written out group by group, and what groups there can be."""

from fractions import Fraction
from itertools import product
from math import exp, prod

import numpy as np
import pytest
from grouped import ALIKE, CHILD, HEAD, OTHER, RELATED, SPOUSE_ROLE, count
from kit import small_groups

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups import mwem
from stream_dp.batch.groups.workload.candidates import marginal_workload
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import GROUP, all_marginals
from stream_dp.batch.rounds.adaptive_fit import AdaptiveMethod, fit_adaptively
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.group_releases import BatchRelease

ROLES = Roles(column="role", head=HEAD, spouse=SPOUSE_ROLE, child=CHILD, children=1)
KIN = Domain((), (Column("role", (CHILD, HEAD, OTHER, SPOUSE_ROLE)), Column("a", (0, 1))), 3, ROLES)
CLOSE = Domain((), (Column("role", (HEAD, CHILD, SPOUSE_ROLE)), Column("a", (0, 1))), 3, ROLES)


def groups_of(domain):
    """Every valid group in order, with members in any order: (attributes, members)."""
    people = list(product(*(range(n) for n in domain.person_values)))
    for size in range(1, domain.most + 1):
        for attributes in product(*(range(n) for n in domain.group_values[:-1])):
            for members in product(people, repeat=size):
                try:
                    Hierarchy(
                        domain,
                        np.array([[*attributes, size - 1]]),
                        np.array(members),
                        np.zeros(size, np.int64),
                    )
                except ValueError:
                    continue
                yield attributes, members


@pytest.mark.parametrize(
    "domain", [small_groups.DOMAIN, KIN, CLOSE], ids=["alike", "kin", "nobody else"]
)
def test_types_are_all_groups_up_to_order(domain):
    types, weights = mwem.group_types(domain)
    present = [
        (tuple(g[:-1].tolist()), tuple(sorted(map(tuple, types.people[a:b].tolist()))))
        for g, a, b in zip(types.groups, types.starts, types.starts[1:], strict=False)
    ]
    wanted = {(g, tuple(sorted(m))) for g, m in groups_of(domain)}
    assert len(present) == len(set(present)) == mwem.type_count(domain)
    assert set(present) == wanted
    assert abs(weights.sum() - 1) < 1e-12


def test_before_anything_is_known_members_are_uniform_and_independent():
    types, weights = mwem.group_types(small_groups.DOMAIN)
    orders = {}
    for attributes, members in groups_of(small_groups.DOMAIN):
        key = attributes, tuple(sorted(members))
        chance = prod([1 / 2, 1 / 2, *[1 / 6] * len(members)])  # region, size, members
        orders[key] = orders.get(key, 0) + chance
    for i in range(types.G):
        part = types.part(i, i + 1)
        key = tuple(part.groups[0, :-1].tolist()), tuple(sorted(map(tuple, part.people.tolist())))
        assert abs(weights[i] - orders[key]) < 1e-12


@pytest.mark.parametrize("domain", [small_groups.DOMAIN, KIN], ids=["alike", "kin"])
def test_what_each_type_adds_is_counted_one_by_one(domain):
    types, _ = mwem.group_types(domain)
    levels = range(5 if domain.roles else 2)
    queries = marginal_workload(all_marginals(domain, 2, levels)).queries
    rng = np.random.default_rng(0)
    queries = queries.take(rng.permutation(len(queries))[:60])
    matrix = mwem.contributions(types, queries).toarray()
    assert (matrix.sum(axis=1) == exact_answers(types, queries)).all()
    for g in rng.integers(types.G, size=8):
        alone = types.part(int(g), int(g) + 1)
        assert [count(alone, queries, i) for i in range(60)] == matrix[:, g].tolist()


def plain(truth, fitted, passes):
    """The weights after the same rounds, by loops over types, queries and replays."""
    work = fitted.workload
    types, weights = mwem.group_types(work.domain)
    rows = fitted.answers.rows.tolist()
    adds = {i: [count(types.part(g, g + 1), work.queries, i) for g in range(types.G)] for i in rows}
    h = weights.tolist()

    def missed(cells):
        errors = []
        for place in cells:
            i = rows[place]
            of_group = work.queries.level[i] == GROUP
            total = truth.G if of_group else truth.N
            answer = truth.G * sum(x * n for x, n in zip(h, adds[i], strict=True)) / total
            errors.append(fitted.answers.values[place] / total - answer)
        return errors

    def update(cells):
        apart = missed(cells)
        for g in range(types.G):
            move = 0.0
            for place, error in zip(cells, apart, strict=True):
                i = rows[place]
                reach = 1 if work.queries.level[i] == GROUP else work.domain.most
                move += adds[i][g] / reach * error / 2
            h[g] *= exp(move)
        norm = sum(h)
        h[:] = [x / norm for x in h]

    starts = [0, *fitted.answers.ends[:-1]]
    parts = [list(range(a, b)) for a, b in zip(starts, fitted.answers.ends, strict=True)]
    done = 0
    for round_ in fitted.picked:
        done += len(round_)
        newest = parts[done - 1]
        least = max(map(abs, missed(newest))) / 2
        update(newest)
        for _ in range(passes):
            for part in parts[:done]:
                if part is newest or max(map(abs, missed(part))) >= least:
                    update(part)
    return np.array(h)


@pytest.mark.parametrize("opening", [True, False])
def test_it_is_what_the_plain_loops_do(opening):
    truth = small_groups.hierarchy()
    work = small_groups.workload(opening)
    start = mwem.uniform_start(truth, work, passes=2)
    plan = AdaptivePlan(Fraction(1, 5), 3, 1)
    method = AdaptiveMethod.of("t", work, plan.phases(work), start)
    fitted = fit_adaptively(truth, method, FitContext(SeededNoise(4)))
    np.testing.assert_allclose(fitted.model.weights, plain(truth, fitted, 2), rtol=1e-9)


def test_it_learns_what_there_is_to_learn_and_repeats_itself():
    truth = small_groups.hierarchy(groups=3000)
    release = BatchRelease(
        name="r", kind="mwem", attributes=("a", "b"), rho=Fraction(5), every=1, rounds=12, ways=2
    )
    transcript, reports = MemoryTranscript(), []
    context = FitContext(SeededNoise(1), transcript, lambda *x: reports.append(x))
    fitted = mwem.fit_mwem(truth, release, context)
    assert reports[-1][2] < 6
    assert fitted.title.endswith("(MWEM)")
    queries = fitted.workload.queries
    sample = fitted.sample(7)
    assert (sample.G, sample.domain) == (truth.G, truth.domain)
    true = exact_answers(truth, queries) / truth.G
    assert np.abs(exact_answers(sample, queries) / truth.G - true).max() < 0.05
    assert np.abs(fitted.model.answers(np.arange(len(queries))) / truth.G - true).max() < 0.02
    again = mwem.fit_mwem(truth, release, FitContext(small_groups.Never(), transcript))
    assert (again.model.weights == fitted.model.weights).all()
    assert (again.sample(7).people == sample.people).all()


def test_domains_that_are_too_large_are_refused_with_their_size():
    person = tuple(Column(f"p{i}", tuple(range(10))) for i in range(3))
    with pytest.raises(UserError, match="501,500 are more than 200,000"):
        mwem.require_few_types(Domain((), person, 2))
    assert mwem.type_count(ALIKE) == 6 * 209
    assert mwem.type_count(RELATED) > 10_000
