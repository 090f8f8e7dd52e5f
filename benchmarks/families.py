"""Simulated families of heads, spouses, children and others, whose attributes follow relations.

No file is read: couples are of like age and, but for .9 % of them, of different sex; both partners'
work depends on sex, on whether there are children and on one another's; children are two to four
decades younger than their parents.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles

SAME_SEX = 0.009  # of couples
MOST, CHILDREN = 10, 8
HEAD, SPOUSE, CHILD, OTHER = range(4)
WORK = ("employed", "unemployed", "not in labour force", "under 16")
EMPLOYED, UNEMPLOYED, AT_HOME, MINOR = range(4)
DOMAIN = Domain(
    (Column("tenure", ("owned", "rented")), Column("income", (0, 1, 2, 3, 4))),
    (
        Column("role", ("head", "spouse", "child", "other")),
        Column("age", tuple(range(9))),  # decades; 8 is 80 and older
        Column("sex", ("male", "female")),
        Column("work", WORK),
    ),
    MOST,
    Roles(column="role", head="head", spouse="spouse", child="child", children=CHILDREN),
)


def families(number: int, seed: int = 0) -> Hierarchy:
    """So many families; the same for the same seed."""
    rng = np.random.default_rng(seed)
    decade = rng.choice(np.arange(1, 9), number, p=[0.03, 0.15, 0.18, 0.18, 0.17, 0.15, 0.09, 0.05])
    sex = rng.integers(0, 2, number)
    married = rng.random(number) < np.array([0, 0.05, 0.4, 0.6, 0.62, 0.6, 0.6, 0.5, 0.3])[decade]
    partner_sex = np.where(rng.random(number) < SAME_SEX, sex, 1 - sex)
    partner_age = np.clip(decade + rng.choice([-1, 0, 0, 0, 1], number), 1, 8)
    often = np.array([0, 0.1, 0.5, 1.3, 1.2, 0.6, 0.25, 0.1, 0.1])[decade]
    children = np.minimum(rng.poisson(often * np.where(married, 1.2, 0.7)), CHILDREN)
    others = np.minimum(rng.poisson(np.where(married, 0.08, 0.25)), MOST - 2 - children)
    others = np.maximum(others, 0)
    head_work = adults_at_work(rng, decade, sex, children > 0, np.zeros(number))
    beside = np.where(head_work == EMPLOYED, 0.5, -0.3)
    partner_work = adults_at_work(rng, partner_age, partner_sex, children > 0, beside)

    members = [np.stack([np.arange(number), np.full(number, HEAD), decade, sex, head_work])]
    with_spouse = np.flatnonzero(married)
    of_partner = np.stack([with_spouse, np.full(len(with_spouse), SPOUSE)])
    own = np.stack([partner_age, partner_sex, partner_work])[:, with_spouse]
    members.append(np.concatenate([of_partner, own]))
    of_child = np.repeat(np.arange(number), children)
    age = np.maximum(decade[of_child] - rng.choice([2, 3, 3, 4], len(of_child)), 0)
    members.append(relatives(rng, of_child, CHILD, age))
    of_other = np.repeat(np.arange(number), others)
    age = rng.choice(
        np.arange(9), len(of_other), p=[0.1, 0.15, 0.25, 0.15, 0.1, 0.05, 0.1, 0.06, 0.04]
    )
    members.append(relatives(rng, of_other, OTHER, age))
    table = np.concatenate(members, axis=1)
    table = table[:, np.argsort(table[0], kind="stable")]

    size = np.bincount(table[0], minlength=number)
    earners = (head_work == EMPLOYED) + 1 * (married & (partner_work == EMPLOYED))
    income = np.clip(earners + rng.choice([0, 1, 1, 2], number) + (decade > 3), 0, 4)
    owned = rng.random(number) < 0.15 + 0.07 * decade + 0.2 * married + 0.05 * (income - 2)
    groups = np.stack([np.where(owned, 0, 1), income, size - 1], axis=1)
    return Hierarchy(DOMAIN, groups, table[1:].T, table[0])


def in_five_years(truth: Hierarchy) -> Hierarchy:
    """The same families with ages in steps of five years: half of a decade's people in each."""
    column = [c.name for c in truth.domain.person].index("age")
    columns, people = list(truth.domain.person), truth.people.astype(int)
    columns[column] = Column("age", tuple(range(2 * len(columns[column].values))))
    half = np.random.default_rng(5).integers(0, 2, truth.N)
    people[:, column] = 2 * people[:, column] + half
    domain = replace(truth.domain, person=tuple(columns))
    return Hierarchy(domain, truth.groups, people, truth.group_of)


def relatives(rng: np.random.Generator, of: np.ndarray, role: int, age: np.ndarray) -> np.ndarray:
    """Members of one role: their family, role, age, sex and work."""
    sex = rng.integers(0, 2, len(of))
    work = adults_at_work(rng, age, sex, np.zeros(len(of), bool), np.zeros(len(of)))
    return np.stack([of, np.full(len(of), role), age, sex, work])


def adults_at_work(
    rng: np.random.Generator,
    age: np.ndarray,
    sex: np.ndarray,
    parents: np.ndarray,
    beside: np.ndarray,
) -> np.ndarray:
    """Everybody's work, by age and sex, whether they have children, and an effect of a partner."""
    likely = np.array([0, 0, 1.2, 1.6, 1.6, 1.3, 0, -2.5, -4])[age]
    likely = likely + np.where(sex == 1, -0.2, 0.2) + beside
    likely = likely - 0.9 * (parents & (sex == 1))
    employed = rng.random(len(age)) < 1 / (1 + np.exp(-likely))
    work = np.where(employed, EMPLOYED, np.where(rng.random(len(age)) < 0.15, UNEMPLOYED, AT_HOME))
    young = (age == 0) | ((age == 1) & (rng.random(len(age)) < 0.6))
    return np.where(young, MINOR, work)
