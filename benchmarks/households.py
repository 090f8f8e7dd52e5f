"""Errors of batch releases on real households, by method and epsilon.

    python benchmarks/households.py [full|reduced|relations|all] [REPETITIONS]
    python benchmarks/households.py survey [REPETITIONS [EPS...]]
    python benchmarks/households.py families [REPETITIONS]
    python benchmarks/households.py HOUSEHOLDS.csv PERSONS.csv [REPETITIONS]

The last form is for those who have the census bureau's public microdata (ACS PUMS), with
relatives as the files state them.

The travel survey of data_sets.py: 27,980 households, 59,762 people; the households of more people
than a form has room for are left out. Judged on every query about 3 attributes of households and
people, a household's size among them.

    full       3 attributes of households, 5 of people, up to 8 people
    reduced    few enough kinds of households for an explicit histogram, that of MWEM
    relations  heads, spouses and children, as far as order, age and nothing else tell (the survey
               states no relation), and queries about relatives
    survey     HPD-Fixed on the full survey, at four eps or those given: errors, CPU seconds of a
               fit, beside people without households, independent columns and every query measured
    families   simulated families (`families.py`), 8 rounds at eps 1, without and with structural
               rules, and without rules with ages in steps of five years: errors by class, couples
               of one sex, children who are older than the head, and heads and spouses below 10,
               beside members shuffled within their roles

delta is 1 / N^2 and rho the largest with that epsilon. Errors are of shares, of households or of
people. Privacy noise here is simulated.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from data_sets import data_file
from families import families, in_five_years
from household_files import binned_column, read_hierarchy, read_pums
from result_file import record

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.workload.candidates import default_marginals
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import SPOUSE, Marginal, Queries
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.services.evaluate.groups_trials import (
    EVERY,
    FLAT,
    DataSetJudge,
    evaluate_data_sets,
    measure_every_query,
    without_households,
)
from stream_dp.services.evaluate.table_report import CLASSES, ClassErrors, qualities, quality_text
from stream_dp.study.group_releases import BatchRelease

FILES = "survey_households.csv", "survey_persons.csv"
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


def survey(
    homes: tuple[Column, ...], people: tuple[Column, ...], most: int, **bins: tuple[int, ...]
) -> Hierarchy:
    domain = Domain(homes, people, most)
    return read_hierarchy(
        *map(data_file, FILES),
        domain,
        key_group="hhID",
        key_person="hhID",
        bins=bins,
        drop_larger=True,
    ).hierarchy


def full() -> Hierarchy:
    return survey(HOMES, PEOPLE, 8)


def reduced() -> Hierarchy:
    """Up to 4 people: minors, those below the two highest ages, the rest; sex; in work or not."""
    age = binned_column("PAge", (4, 8))
    hierarchy = survey(HOMES[1:], (age, SEX, WORK), 4, PAge=(4, 8))
    people = np.stack([*hierarchy.people.T[:2], hierarchy.people[:, 2] > 1], axis=1)
    domain = Domain(hierarchy.domain.group, (age, SEX, Column("works", ("yes", "no"))), 4)
    return Hierarchy(domain, hierarchy.groups, people, hierarchy.group_of)


def relations() -> Hierarchy:
    """The first listed is the head; a second adult at most 2 classes of age away is the spouse;
    minors are children, the rest others. Households of up to 6 people."""
    order = Column("per_num", tuple(range(1, 11)))
    hierarchy = survey(HOMES[1:], (order, AGE, SEX, WORK), 6)
    age = hierarchy.people[:, 1].astype(int)
    head = hierarchy.people[:, 0] == 0
    of_head = age[hierarchy.starts[:-1]][hierarchy.group_of]
    role = np.full(hierarchy.N, 3)
    role[age <= 3] = 2
    role[(hierarchy.people[:, 0] == 1) & (age >= 4) & (abs(age - of_head) <= 2)] = 1
    role[head] = 0
    roles = Roles(column="role", head="head", spouse="spouse", child="child", children=5)
    columns = Column("role", ("head", "spouse", "child", "other")), AGE, SEX, WORK
    domain = Domain(hierarchy.domain.group, columns, 6, roles)
    people = np.stack([role, *hierarchy.people.T[1:]], axis=1)
    return Hierarchy(domain, hierarchy.groups, people, hierarchy.group_of)


def census(homes: Path, people: Path) -> Hierarchy:
    """Tenure and vehicles; age, sex, race and work. Households of up to 8 people."""
    group = (
        Column("TEN", (1, 2, 3, 4)),
        Column("VEH", (0, 1, 2, 3, 4, 5, 6)),
    )
    ages = (6, 18, 30, 45, 65)
    person = (
        binned_column("AGEP", ages),
        Column("SEX", (1, 2)),
        Column("RAC1P", tuple(range(1, 10))),
        Column("ESR", (*range(1, 7), "none"), missing="none"),
    )
    return read_pums(
        homes, people, group=group, person=person, most=8, bins={"AGEP": ages}, drop_larger=True
    ).hierarchy


HPD, GEN = "hpd-fixed", "hpd-gen"
FORMS = {
    "full": (full, (HPD,)),
    "reduced": (reduced, ("mwem", HPD, GEN)),
    "relations": (relations, (HPD, GEN)),
}


def batch(hierarchy: Hierarchy, kind: str, epsilon: str, rounds: int = 20) -> BatchRelease:
    rho = rho_within(Fraction(epsilon), Fraction(1, hierarchy.N**2))
    roles = hierarchy.domain.roles
    names = tuple(c.name for c in hierarchy.domain.person if not roles or c.name != roles.column)
    return BatchRelease(name="homes", kind=kind, attributes=names, rho=rho, every=1, rounds=rounds)


def show_progress(subject: str, done: int, rounds: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{subject}: {done}/{rounds}   ", end="", file=sys.stderr, flush=True)


def compare(name: str, truth: Hierarchy, methods: tuple[str, ...], repetitions: int) -> None:
    asked = [(f"eps {e}", batch(truth, k, e)) for e in EPSILONS for k in methods]
    began = time.perf_counter()
    rows = evaluate_data_sets(truth, asked, repetitions, seed=1, progress=show_progress)
    took = (time.perf_counter() - began) / 60
    print(f"\n{name}: {truth.G:,} households, {truth.N:,} people, {repetitions} repetitions")
    print(f"{quality_text(rows)}\nin {took:.1f} min", flush=True)


def fitted(truth: Hierarchy, release: BatchRelease, seed: int) -> tuple[Hierarchy, float]:
    """A data set of a release, and the CPU seconds of its fit with all compilation."""
    began = time.process_time()
    fit = kinds.load_synthesizer(release.kind)(truth, release, FitContext(SeededNoise(seed)))
    took = time.process_time() - began
    return fit.sample(seed), took


def errors(truth: Hierarchy, synthetic: Hierarchy, ways: int = 3) -> dict[str, tuple[float, float]]:
    """By class of queries about so many attributes the largest and the mean error, in points."""
    queries = Queries.joined(m.queries() for m in default_marginals(truth.domain, ways))
    return points(DataSetJudge(truth, queries).data_set(synthetic))


def points(errors: ClassErrors) -> dict[str, tuple[float, float]]:
    return {q.queries: (100 * q.greatest, 100 * q.mean) for q in qualities(errors, "", "", "")}


def every_query(truth: Hierarchy, epsilon: str, seed: int) -> dict[str, tuple[float, float]]:
    """The errors of noisy answers to all queries, without a data set."""
    marginals = default_marginals(truth.domain, 3)
    rho = batch(truth, "independent", epsilon).rho
    noisy = measure_every_query(truth, marginals, rho, SeededNoise(seed))
    judge = DataSetJudge(truth, Queries.joined(m.queries() for m in marginals))
    return points(judge.counts(noisy))


def flat(truth: Hierarchy, epsilon: str, seed: int) -> tuple[Hierarchy, float]:
    """People without households, put into some, and the CPU seconds of the fit."""
    began = time.process_time()
    plan = AdaptivePlan.of(batch(truth, "hpd-fixed", epsilon))
    fit = without_households(
        *(truth, 3, plan),
        source=SeededNoise(seed),
        progress=lambda *_: None,
    )
    took = time.process_time() - began
    return fit.sample(seed), took


def full_survey(repetitions: int, epsilons: list[str]) -> None:
    truth = full()
    print(f"largest / mean error in points, groups and people; {repetitions} repetitions, CPU s")
    for epsilon in epsilons:
        for kind in (HPD, FLAT, "independent", EVERY):
            each, seconds = [], 0.0
            for seed in range(repetitions):
                if kind == EVERY:
                    of_class = every_query(truth, epsilon, seed)
                else:
                    if kind == FLAT:
                        synthetic, took = flat(truth, epsilon, seed)
                    else:
                        synthetic, took = fitted(truth, batch(truth, kind, epsilon), seed)
                    of_class, seconds = errors(truth, synthetic), seconds + took / repetitions
                each.append((*of_class["groups"], *of_class["people"]))
            means = np.mean(each, axis=0)
            every = ", ".join(f"{a:.2f} / {b:.4f}" for a, b, *_ in each)
            took_words = f"{seconds:.0f} s, groups: {every}" if seconds else ""
            print(f"eps {epsilon:<5}{kind:<24}{in_points(means)}  {took_words}", flush=True)


def in_points(each: np.ndarray) -> str:
    """Largest and mean error among groups, then among people."""
    pairs = (f"{a:.2f} / {b:.4f}" for a, b in np.reshape(each, (2, 2)))
    return "".join(f"{pair:>16}" for pair in pairs)


def of_one_sex(hierarchy: Hierarchy) -> float:
    """The share of couples."""
    sex = [c.name for c in hierarchy.domain.person].index("sex")
    couples = Marginal(hierarchy.domain, SPOUSE, (), (sex,), (sex,))
    counts = exact_answers(hierarchy, couples.queries())
    return float((counts[0] + counts[3]) / counts.sum())


def impossible(hierarchy: Hierarchy) -> tuple[float, int]:
    """The share of children who are older than the head; heads and spouses below 10."""
    names = [c.name for c in hierarchy.domain.person]
    role = hierarchy.people[:, names.index("role")]
    age = hierarchy.people[:, names.index("age")].astype(int)
    head, child = role == 0, role == 2
    of_head = age[head][hierarchy.group_of[child]]
    decade = len(hierarchy.domain.person[names.index("age")].values) // 9
    return float((age[child] > of_head).mean()), int((age[role < 2] < decade).sum())


RULES = ("child.age + 1 <= head.age", "head.age >= 1", "spouse.age >= 1")  # in decades


def simulated(repetitions: int) -> None:
    truth = families(14_731, 1)
    people, rng = truth.people.copy(), np.random.default_rng(0)
    for role in range(4):
        members = np.flatnonzero(people[:, 0] == role)
        people[members] = people[rng.permutation(members)]
    shuffled = Hierarchy(truth.domain, truth.groups, people, truth.group_of)
    rows = [("truth", truth, truth, 0.0)]
    rows.append(("members shuffled within their roles", truth, shuffled, 0.0))
    release = batch(truth, HPD, "1", rounds=8)
    ruled, finer = release.model_copy(update={"rules": RULES}), in_five_years(truth)
    for seed in range(1, repetitions + 1):
        rows.append((f"`{HPD}`, seed {seed}", truth, *fitted(truth, release, seed)))
        rows.append((f"with rules, seed {seed}", truth, *fitted(truth, ruled, seed)))
        rows.append((f"ages in five years, seed {seed}", finer, *fitted(finer, release, seed)))
    print(f"{truth.G:,} families, {truth.N:,} people, eps 1; largest / mean error in points")
    for name, true, synthetic, took in rows:
        by_class = errors(true, synthetic)
        texts = [f"{k} {by_class[k][0]:.2f} / {by_class[k][1]:.3f}" for k in CLASSES[:3]]
        older, young = impossible(synthetic)
        if name != "truth":
            means = (by_class[k][1] for k in CLASSES[:3])
            record("households-relatives", name, *means, of_one_sex(synthetic), older, young)
        print(
            f"{name:<36} {'; '.join(texts)}; couples of one sex {of_one_sex(synthetic):.1%};"
            f" older children {older:.1%}; young heads and spouses {young}; {took:.0f} s",
            flush=True,
        )


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["survey"]:
        count, *epsilons = arguments[1:] or ["1"]
        full_survey(int(count), epsilons or list(EPSILONS))
        return
    repetitions = int(arguments.pop()) if arguments and arguments[-1].isdigit() else 1
    if arguments == ["families"]:
        simulated(repetitions)
        return
    if len(arguments) == 2:
        compare("census", census(Path(arguments[0]), Path(arguments[1])), (HPD,), repetitions)
        return
    if len(arguments) > 1 or not {*arguments} <= {*FORMS, "all"}:
        names = ", ".join([*FORMS, "survey", "families"])
        sys.exit(f"households: give one of {names}, all, or two files")
    for name in FORMS if arguments in ([], ["all"]) else arguments:
        load, methods = FORMS[name]
        compare(name, load(), methods, repetitions)


if __name__ == "__main__":
    main(sys.argv[1:])
