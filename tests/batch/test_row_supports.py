"""Structural rules in synthesizers of groups: every draw keeps them, costs stay as they are."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles, groups_that_break
from stream_dp.batch.groups.hpd.adam import FitSummary
from stream_dp.batch.groups.hpd.product_mixture import HPD
from stream_dp.batch.groups.mwem import group_types
from stream_dp.batch.groups.workload import exact_counts as exact
from stream_dp.batch.groups.workload.queries import GROUP, HAS_CHILD, PERSON, Marginal, Queries
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.group_releases import BatchRelease
from stream_dp.study.structural_rules import Rule

ROLES = Roles(column="role", head="h", spouse="s", child="c", children=2)
ROWS, ROOM = 50, 100  # one program answers all queries
AGES = (20, 0, 40, "absent", 10)  # codes in no particular order
TEXTS = {
    "parents": ("child.age + 10 <= head.age", "child.age + 10 <= spouse.age", "head.age >= 10"),
    "like ages": ("head.age <= spouse.age + 10", "spouse.age - 10 <= head.age", "spouse.age <= 20"),
    "chain": (
        "child.age + 10 <= spouse.age",
        "spouse.age + 10 <= head.age",
        "other.age <= child.age",
    ),
}


def domain(texts, others=True):
    role = Column("role", ("s", "o", "h", "c") if others else ("s", "h", "c"))
    people = Column("age", AGES), role, Column("sex", ("f", "m"))
    rules = tuple(map(Rule.read, texts))
    return Domain((Column("region", (1, 2)),), people, 4, ROLES, rules)


def breaks(texts, members):
    """Whether members (role, age) break a rule, written out."""
    for text in texts:
        words = text.replace("<=", "|<=|").replace(">=", "|>=|").split("|")
        left, order, right = (word.strip() for word in words)
        sides = []
        for side in (left, right):
            name, _, shift = side.partition(" ")
            number = int(shift.replace(" ", "") or 0)
            if "." not in name:
                sides.append([int(name)])
                continue
            role = name.split(".")[0][0]
            sides.append([age + number for r, age in members if r == role and age != "absent"])
        for a, b in product(*sides):
            if (a > b) if order == "<=" else (a < b):
                return True
    return False


def written_out(texts, drawn):
    roles, ages = drawn.domain.person[1].values, drawn.domain.person[0].values
    broken = np.zeros(drawn.G, bool)
    for g in range(drawn.G):
        rows = drawn.people[drawn.starts[g] : drawn.starts[g + 1]]
        broken[g] = breaks(texts, [(roles[r], ages[a]) for a, r, _ in rows])
    return broken


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1.0, 40.0, 1e6]))
@settings(max_examples=10)
@pytest.mark.parametrize("name", TEXTS)
def test_every_drawn_group_keeps_every_rule(name, seed, spread):
    family, rng = HPD(domain(TEXTS[name]), 300, 700, rows=15), np.random.default_rng(seed)
    params = {k: (spread * rng.normal(size=s)).astype(np.float32) for k, s in family.shapes.items()}
    drawn = family.sample(params, 200, seed)
    assert not written_out(TEXTS[name], drawn).any()


@pytest.mark.parametrize("name", TEXTS)
def test_groups_that_break_rules_are_found(name):
    """Without rules groups break them, and the count by arrays is the one written out."""
    plain = replace(domain(TEXTS[name]), rules=())
    family = HPD(plain, 300, 700, rows=15)
    drawn = family.sample(family.init(3), 400, 4)
    found = np.any([groups_that_break(drawn, Rule.read(text)) for text in TEXTS[name]], axis=0)
    assert found.any()
    assert np.array_equal(found, written_out(TEXTS[name], drawn))


@pytest.mark.parametrize("name", TEXTS)
def test_every_group_that_keeps_the_rules_fits_a_row(name):
    family = HPD(domain(TEXTS[name]), 300, 700, rows=400)
    supports = family.supports
    layout = family.layout
    ages = supports.person[:, : len(AGES)]
    for n, c in product((0, 1), (0, 1)):
        slots = [0] + [1] * n + [2] * c
        of_slot = "hsc"
        rows = supports.composition[
            np.flatnonzero(
                (layout.counts["spouse"] == n)
                & (layout.counts["child"] == c)
                & (layout.counts["other"] == 0)
            )[0]
        ]
        for codes in product(range(len(AGES)), repeat=len(slots)):
            members = [(of_slot[s], AGES[a]) for s, a in zip(slots, codes, strict=True)]
            fits = rows & np.all([ages[s, a] for s, a in zip(slots, codes, strict=True)], axis=0)
            assert fits.any() == (not breaks(TEXTS[name], members)), members


@pytest.mark.parametrize("name", TEXTS)
def test_a_sample_answers_as_the_weighted_rows_do(name):
    family = HPD(domain(TEXTS[name]), 1000, 2500, rows=ROWS)
    params = family.init(21)
    params["row"] = np.random.default_rng(1).normal(0, 1.5, (1, ROWS)).astype(np.float32)
    drawn = family.sample(params, 60_000, 22)
    marginals = (
        Marginal(family.domain, PERSON, (), (0, 1)),
        Marginal(family.domain, GROUP, (0,), (0, 2)),
        Marginal(family.domain, HAS_CHILD, (), (0,), (0,)),
    )
    queries = Queries.joined(marginal.queries() for marginal in marginals)
    of_groups = queries.level == GROUP
    found = exact.exact_answers(drawn, queries) / np.where(of_groups, drawn.G, drawn.N)
    stated = family.answers(params, queries, room=ROOM) / np.where(of_groups, 1000, 2500)
    assert np.abs(found - stated).max() < 0.006


def test_the_model_gives_nothing_to_what_the_rules_leave_out():
    """The answers about parents and children are 0 for every pair that breaks the rule."""
    family = HPD(domain(("child.age + 10 <= head.age",)), 1000, 2500, rows=ROWS)
    params = family.init(2)
    queries = Marginal(family.domain, HAS_CHILD, (), (0, 1), (0,)).queries()
    answers = family.answers(params, queries, room=ROOM).reshape(len(AGES), 4, len(AGES))
    for parent, child in product(range(len(AGES)), repeat=2):
        numbers = AGES[parent], AGES[child]
        possible = "absent" in numbers or numbers[1] + 10 <= numbers[0]
        assert (answers[parent, 2, child] > 0) == possible


@pytest.mark.parametrize("kind", ["hpd-fixed", "mwem"])
def test_groups_that_break_a_rule_are_measured_as_they_are(kind, monkeypatch):
    """Rules change neither the noise nor a count of what is measured at once, only the model.

    A mixture keeps its first parameters here: it draws groups of both kinds also unfitted.
    """
    monkeypatch.setattr(HPD, "fit", lambda self, params, *_: (params, FitSummary(1, 1, 0, True)))
    ages = Column("age", (0, 10, 20))
    people = Column("role", ("h", "s", "c")), ages
    plain = Domain((), people, 3, Roles("role", "h", "s", "c", 1))
    # In every group the head is as young as can be, and the child is not: all break the rule.
    data = Hierarchy(
        plain,
        np.full((40, 1), 1),
        np.tile([[0, 0], [2, 2]], (40, 1)),
        np.repeat(np.arange(40), 2),
    )
    fits = []
    for rules in ((), ("child.age + 10 <= head.age",)):
        release = BatchRelease(
            name="r",
            kind=kind,
            attributes=("age",),
            rho=Fraction(5),
            every=1,
            rounds=1,
            rules=rules,
            **({"rows": ROWS} if kind == "hpd-fixed" else {}),
        )
        fits.append(load_synthesizer(kind)(data, release, FitContext(SeededNoise(1))))
    without, with_rule = fits
    at_once = without.measurements.queries[: len(without.measurements.queries) // 2]
    assert with_rule.measurements.queries[: len(at_once)] == at_once
    for name in ("values", "variances"):
        a, b = (list(getattr(fit.measurements, name))[: len(at_once)] for fit in fits)
        assert a == b
    rule = Rule.read("child.age + 10 <= head.age")
    assert not groups_that_break(with_rule.sample(3), rule).any()
    assert groups_that_break(without.sample(3), rule).any()


def test_types_of_groups_keep_the_rules():
    texts = TEXTS["parents"]
    small = domain(texts, others=False)
    types, weights = group_types(small)
    everything, _ = group_types(replace(small, rules=()))
    assert types.G == (~written_out(texts, everything)).sum() > 0
    assert not written_out(texts, types).any()
    assert weights.sum() == pytest.approx(1)


def test_rows_are_the_same_for_the_same_declaration():
    first, second = (HPD(domain(TEXTS["chain"]), 10, 20, rows=30).supports for _ in range(2))
    assert np.array_equal(first.person, second.person)
    assert np.array_equal(first.composition, second.composition)
