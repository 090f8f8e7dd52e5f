"""Errors of groups and members against hand-checked ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kit.small_groups import DOMAIN, Silent
from kit.small_groups import hierarchy as small

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups import mwem
from stream_dp.batch.groups.workload.candidates import default_marginals, marginal_workload
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import GROUP, PERSON, SPOUSE, Marginal, Queries
from stream_dp.batch.rounds.adaptive_fit import AdaptiveFit
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.evaluate.groups_trials import DataSetJudge
from stream_dp.services.evaluate.table_report import (
    ClassErrors,
    Quality,
    averaged,
    budget_label,
    qualities,
    quality_text,
)
from stream_dp.study.group_releases import BatchRelease

TINY = Domain((Column("region", ("n", "s")),), (Column("a", (0, 1)),), 2)


def tiny(a: Sequence[int]) -> Hierarchy:
    """Groups n: {0}, n: {0, 1}, s: {1, 1}, as the first of a table; a: of the five people."""
    groups = np.array([[0, 0], [0, 1], [1, 1]])
    return Hierarchy(TINY, groups, np.array(a)[:, None], np.array([0, 1, 1, 2, 2]))


def marginal_queries(domain: Domain, ways: int = 1) -> Queries:
    return Queries.joined(m.queries() for m in default_marginals(domain, ways))


def summary(errors: ClassErrors) -> list[Quality]:
    return qualities(errors, "m", "b", "data set")


# Errors


def test_a_data_set_that_is_the_truth_has_no_error() -> None:
    truth = small()
    rows = summary(DataSetJudge(truth, marginal_queries(DOMAIN, 2)).data_set(truth))
    assert {q.queries for q in rows} == {"groups", "people"}
    assert all(q.greatest == q.mean == 0 for q in rows)


def test_errors_of_a_known_change() -> None:
    """Person 2, the only 1 of the second group, becomes a 0.

    Groups with a 1: from 2 of 3 to 1 of 3; with a 0: 2 of 3 as before. People with 0: from 2 of 5
    to 3; with 1: from 3 to 2. Regions and sizes, two cells each at both levels, stay.
    """
    judge = DataSetJudge(tiny([0, 0, 1, 1, 1]), marginal_queries(TINY))
    groups, people = summary(judge.data_set(tiny([0, 0, 0, 1, 1])))
    assert groups == Quality(
        method="m",
        budget="b",
        answer="data set",
        queries="groups",
        number=6,
        greatest=pytest.approx(1 / 3),
        mean=pytest.approx(1 / 18),
    )
    assert people == Quality(
        method="m",
        budget="b",
        answer="data set",
        queries="people",
        number=6,
        greatest=pytest.approx(1 / 5),
        mean=pytest.approx(2 / 5 / 6),
    )


def test_a_data_set_counts_among_its_own_groups_and_people() -> None:
    """Twice the truth is as good as the truth."""
    truth = tiny([0, 0, 1, 1, 1])
    twice = Hierarchy(
        TINY,
        np.concatenate([truth.groups] * 2),
        np.concatenate([truth.people] * 2),
        np.concatenate([truth.group_of, truth.group_of + 3]),
    )
    assert all(
        q.greatest < 1e-12
        for q in summary(DataSetJudge(truth, marginal_queries(TINY)).data_set(twice))
    )


def test_a_data_set_of_nothing() -> None:
    empty = Hierarchy(TINY, np.zeros((0, 2), int), np.zeros((0, 1), int), np.zeros(0, int))
    judge = DataSetJudge(tiny([0, 0, 1, 1, 1]), marginal_queries(TINY))
    assert [q.greatest for q in summary(judge.data_set(empty))] == [
        pytest.approx(2 / 3),
        pytest.approx(4 / 5),
    ]


def test_relations_are_a_class_of_their_own() -> None:
    """One couple of two who are alike; then the spouse has the other value."""
    roles = Roles(column="role", head="head", spouse="spouse", child="child", children=1)
    domain = Domain(
        (), (Column("role", ("head", "spouse", "child")), Column("a", (0, 1))), 3, roles
    )

    def couple(theirs: int) -> Hierarchy:
        return Hierarchy(domain, np.array([[1]]), np.array([[0, 0], [1, theirs]]), np.zeros(2, int))

    queries = Marginal(domain, SPOUSE, group=(), person=(1,), relative=(1,)).queries()
    every, spouses = summary(DataSetJudge(couple(0), queries).data_set(couple(1)))
    assert (every.queries, spouses.queries) == ("relations", "relations: spouse")
    for quality in (every, spouses):
        # Two people in (0, 0) become one in (0, 1) and one in (1, 0): of two people.
        assert (quality.number, quality.greatest) == (4, 1)
        assert quality.mean == pytest.approx((1 + 1 / 2 + 1 / 2) / 4)


def test_the_floor_is_the_noise_and_nothing_else() -> None:
    truth = tiny([0, 0, 1, 1, 1])
    marginals = (Marginal(TINY, GROUP, (0,)), Marginal(TINY, PERSON, (), (0,)))
    workload = marginal_workload(marginals)
    rows = np.array([2, 3, 0, 1])
    true = exact_answers(truth, workload.queries)[rows]
    noisy = NoisyAnswers(
        candidates=(1, 0),
        rows=rows,
        values=true + np.array([3, -1, 0, -2]),
        variances=(Fraction(1),) * 4,
        ends=(2, 4),
    )
    fitted: Any = AdaptiveFit(
        title="t",
        workload=workload,
        picked=((1,), (0,)),
        answers=noisy,
        model=None,
        error=0.0,
        exact=False,
    )  # type: ignore[arg-type]
    groups, people = summary(DataSetJudge(truth, workload.queries).measurements(fitted))
    assert (groups.number, people.number) == (2, 2)
    assert (groups.greatest, groups.mean) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (people.greatest, people.mean) == (pytest.approx(3 / 5), pytest.approx(2 / 5))


def fitted(rho: str, source: Any, groups: int = 300) -> tuple[Hierarchy, AdaptiveFit]:
    truth = small(groups=groups)
    release = BatchRelease(
        name="x", kind="mwem", attributes=("a", "b"), rho=Fraction(rho), every=1, ways=2, rounds=4
    )
    return truth, mwem.fit_mwem(truth, release, FitContext(source))


def test_without_noise_the_floor_is_zero_and_a_model_near_its_measurements() -> None:
    truth, fit = fitted("1", Silent())
    judge = DataSetJudge(truth, marginal_queries(DOMAIN, 2))
    assert all(q.greatest == 0 for q in summary(judge.measurements(fit)))
    assert all(q.mean < 0.02 for q in summary(judge.model(fit)))


def test_a_model_is_judged_by_its_own_answers() -> None:
    truth, fit = fitted("1", SeededNoise(1))
    queries = marginal_queries(DOMAIN, 2)
    last = np.arange(len(fit.workload.queries))[-len(queries) :]
    off = fit.model.answers(last) - exact_answers(truth, queries)
    groups, people = summary(DataSetJudge(truth, queries).model(fit))
    of_groups = queries.level == GROUP
    assert groups.mean == pytest.approx(np.abs(off[of_groups]).mean() / truth.G)
    assert people.greatest == pytest.approx(np.abs(off[~of_groups]).max() / truth.N)


def test_errors_fall_as_rho_grows() -> None:
    rows = []
    for rho in ("1/50", "2"):
        truth, fit = fitted(rho, SeededNoise(2), groups=1000)
        judge = DataSetJudge(truth, marginal_queries(DOMAIN, 2))
        errors = (judge.measurements(fit), judge.model(fit), judge.data_set(fit.sample(0)))
        rows.append([row for judged in errors for row in summary(judged)])
    for less, more in zip(*rows, strict=True):
        assert more.mean < less.mean / 1.5, more
    # The noise alone: a tenth, as its deviation.
    assert rows[1][0].mean == pytest.approx(rows[0][0].mean / 10, rel=0.6)


def test_repetitions_are_averaged() -> None:
    one, two = (
        Quality(
            method="m",
            budget="b",
            answer="model",
            queries="people",
            number=4,
            greatest=e,
            mean=e / 2,
        )
        for e in (0.1, 0.3)
    )
    other = Quality(
        method="m", budget="c", answer="model", queries="people", number=4, greatest=0.5, mean=0.5
    )
    first, second = averaged([one, other, two])
    assert (first.greatest, first.mean) == (pytest.approx(0.2), pytest.approx(0.1))
    assert second == other


def test_the_table_has_a_line_a_method_and_a_column_a_budget() -> None:
    rows = [
        Quality(
            method="m",
            budget="rho 1",
            answer="data set",
            queries="people",
            number=4,
            greatest=0.125,
            mean=0.01,
        ),
        Quality(
            method="m",
            budget="rho 2",
            answer="data set",
            queries="people",
            number=4,
            greatest=0.25,
            mean=0.02,
        ),
        Quality(
            method="m",
            budget="rho 1",
            answer="measurements",
            queries="people",
            number=9,
            greatest=0.5,
            mean=0.25,
        ),
    ]
    text = quality_text(rows)
    assert text.startswith("CONFIDENTIAL")
    head, *lines = text.split("\n\n")[1].splitlines()
    assert head.split("  ")[0] == "people, 4 queries"
    assert lines[0].split(maxsplit=3)[3].split("  ") == ["12.50 / 1.0000", "25.00 / 2.0000"]
    assert lines[1].endswith("50.00 / 25.0000 (9)   none measured")


def test_labels_of_budgets_are_as_written() -> None:
    rho = Fraction("0.01")
    assert [budget_label(rho * s) for s in (1, Fraction("0.3"), 100)] == [
        "rho 0.01",
        "rho 0.003",
        "rho 1",
    ]
