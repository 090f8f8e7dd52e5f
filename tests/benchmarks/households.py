"""Errors of batch releases on real households, by method and epsilon.

    python tests/benchmarks/households.py [full|reduced|relations|all] [REPETITIONS]

The travel survey in ../shared/data/households: 27,980 households, 59,762 people; the households of
more people than a form has room for are left out. Judged on every query about 3 attributes of
households and people, a household's size among them.

    full       3 attributes of households, 5 of people, up to 8 people
    reduced    few enough kinds of households for an explicit histogram, that of MWEM
    relations  heads, spouses and children, as far as order, age and nothing else tell (the survey
               states no relation), and queries about relatives

delta is 1 / N^2 and rho the largest with that epsilon. Errors are of shares, of households or of
people. Privacy noise here is simulated.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from stream_dp.batch.domain import Bins, Column, Domain, Hierarchy, Roles
from stream_dp.batch.readers import read
from stream_dp.evaluation.households import evaluate
from stream_dp.evaluation.quality import table
from stream_dp.grouped import Batch
from stream_dp.privacy.zcdp import rho_within

DATA = Path(__file__).parents[3] / "shared/data/households"
FILES = DATA / "survey_households.csv", DATA / "survey_persons.csv"
EPSILONS = ("0.1", "0.25", "0.5", "1")
HOMES = (
    Column("SUBREGCluster", (1, 2, 3, 4)),
    Column("HHIncome", (1, 2, 3)),
    Column("HHDwelling", (1, 2)),
)
AGE, SEX = Column("PAge", tuple(range(11))), Column("PGender", (1, 2))
WORK = Column("PEmp", (1, 2, 3, "NA"))
PEOPLE = (
    AGE,
    SEX,
    WORK,
    Column("POcc", (*range(1, 11), "NA")),
    Column("PComm", ("NA", "active", "auto", "other", "transit", "workFromHome")),
)


def survey(homes: tuple[Column, ...], people: tuple[Column, ...], most: int) -> Hierarchy:
    domain = Domain(homes, people, most)
    return read(*FILES, "hhID", "hhID", domain, drop_larger=True).hierarchy


def full() -> Hierarchy:
    return survey(HOMES, PEOPLE, 8)


def reduced() -> Hierarchy:
    """Up to 4 people: minors, those below the two highest ages, the rest; sex; in work or not."""
    age = Bins((4, 8)).column("PAge")
    held = survey(HOMES[1:], (age, SEX, WORK), 4)
    people = np.stack([*held.people.T[:2], held.people[:, 2] > 1], axis=1)
    domain = Domain(held.domain.group, (age, SEX, Column("works", ("yes", "no"))), 4)
    return Hierarchy(domain, held.groups, people, held.group_of)


def relations() -> Hierarchy:
    """The first listed is the head; a second adult at most 2 classes of age away is the spouse;
    minors are children, the rest others. Households of up to 6 people."""
    order = Column("per_num", tuple(range(1, 11)))
    held = survey(HOMES[1:], (order, AGE, SEX, WORK), 6)
    age = held.people[:, 1].astype(int)
    head = held.people[:, 0] == 0
    of_head = age[held.starts[:-1]][held.group_of]
    role = np.full(held.N, 3)
    role[age <= 3] = 2
    role[(held.people[:, 0] == 1) & (age >= 4) & (abs(age - of_head) <= 2)] = 1
    role[head] = 0
    roles = Roles("role", "head", "spouse", "child", 5)
    columns = Column("role", ("head", "spouse", "child", "other")), AGE, SEX, WORK
    domain = Domain(held.domain.group, columns, 6, roles)
    people = np.stack([role, *held.people.T[1:]], axis=1)
    return Hierarchy(domain, held.groups, people, held.group_of)


FORMS = {
    "full": (full, ("hpd-fixed", "hpd-gen")),
    "reduced": (reduced, ("mwem", "hpd-fixed", "hpd-gen")),
    "relations": (relations, ("hpd-fixed", "hpd-gen")),
}


def batch(hierarchy: Hierarchy, kind: str, epsilon: str) -> Batch:
    rho = rho_within(Fraction(epsilon), Fraction(1, hierarchy.N**2))
    names = tuple(c.name for c in hierarchy.domain.person)
    return Batch(name="homes", kind=kind, attributes=names, rho=rho, every=1)


def heard(what: str, done: int, rounds: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {done}/{rounds}   ", end="", file=sys.stderr, flush=True)


def main(forms: list[str], repetitions: int) -> None:
    for form in forms:
        made, kinds = FORMS[form]
        truth = made()
        asked = [(f"eps {e}", batch(truth, k, e)) for e in EPSILONS for k in kinds]
        began = time.perf_counter()
        found = evaluate(truth, asked, repetitions, seed=1, heard=heard)
        took = (time.perf_counter() - began) / 60
        print(f"\n{form}: {truth.G:,} households, {truth.N:,} people, {repetitions} repetitions")
        print(f"{table(found)}\nin {took:.1f} min", flush=True)


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "all"
    if given not in {*FORMS, "all"}:
        sys.exit(f"households: '{given}' is none of {', '.join(FORMS)}, all")
    if not DATA.is_dir():
        sys.exit(f"households: {DATA} is not there")
    main(list(FORMS) if given == "all" else [given], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
