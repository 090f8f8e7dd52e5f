"""What an evaluation says of relatives: errors by relation, and how much of each was measured."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups import mwem
from stream_dp.batch.groups.workload.candidates import default_marginals
from stream_dp.batch.groups.workload.queries import HAS_CHILD, HAS_PARENT, SPOUSE, Marginal
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.evaluate import groups_trials
from stream_dp.services.evaluate.groups_trials import DataSetJudge
from stream_dp.services.evaluate.table_report import (
    DATA_SET,
    RELATIONS,
    Quality,
    qualities,
    quality_text,
)
from stream_dp.study.group_releases import BatchRelease

ROLES = Roles(column="role", head="head", spouse="spouse", child="child", children=2)
DOMAIN = Domain(
    (Column("region", ("n", "s")),),
    (Column("role", ("head", "spouse", "child", "other")), Column("a", (0, 1))),
    4,
    ROLES,
)
HEAD, PARTNER, CHILD = 0, 1, 2
CLASSES = ("groups", "people", "relations", *RELATIONS)


def family(*members: tuple[int, int]) -> Hierarchy:
    """One family, of roles and values of `a`."""
    return Hierarchy(
        DOMAIN, np.array([[0, len(members) - 1]]), np.array(members), np.zeros(len(members), int)
    )


def couples(number: int = 80) -> Hierarchy:
    """Heads with spouses and a child, all of whom are alike nine times in ten."""
    rng = np.random.default_rng(1)
    a = np.repeat(rng.integers(0, 2, number), 3)
    a = np.where(rng.random(3 * number) < 0.1, 1 - a, a)
    people = np.stack([np.tile([HEAD, PARTNER, CHILD], number), a], axis=1)
    groups = np.stack([rng.integers(0, 2, number), np.full(number, 2)], axis=1)
    return Hierarchy(DOMAIN, groups, people, np.repeat(np.arange(number), 3))


@pytest.mark.parametrize(
    ("level", "truth", "published", "errors"),
    [
        # The only child's value: parents (0; 0) become (0; 1), and the child's own likewise.
        (HAS_CHILD, ((HEAD, 0), (CHILD, 0)), ((HEAD, 0), (CHILD, 1)), [1, 1, 0, 0]),
        (HAS_PARENT, ((HEAD, 0), (CHILD, 0)), ((HEAD, 0), (CHILD, 1)), [1, 0, 1, 0]),
        # Parents of different values: the child has a parent of each; then two of one value.
        (
            HAS_PARENT,
            ((HEAD, 0), (PARTNER, 1), (CHILD, 0)),
            ((HEAD, 0), (PARTNER, 0), (CHILD, 0)),
            [0, 1, 0, 0],
        ),
        # Two children of one value are one parent's child of that value, once.
        (
            HAS_CHILD,
            ((HEAD, 0), (CHILD, 0), (CHILD, 1)),
            ((HEAD, 0), (CHILD, 0), (CHILD, 0)),
            [0, 1, 0, 0],
        ),
    ],
)
def test_errors_of_relatives_by_hand(
    level: int,
    truth: tuple[tuple[int, int], ...],
    published: tuple[tuple[int, int], ...],
    errors: list[int],
) -> None:
    """errors: of cells (own, relative's) (0, 0), (0, 1), (1, 0), (1, 1), in people."""
    queries = Marginal(DOMAIN, level, person=(1,), relative=(1,)).queries()
    judged = DataSetJudge(family(*truth), queries).data_set(family(*published))
    every, own = qualities(judged, "m", "b", DATA_SET)
    assert (every.queries, own.queries) == ("relations", RELATIONS[level - SPOUSE])
    for quality in (every, own):
        assert quality.number == 4
        assert quality.greatest == pytest.approx(max(errors) / len(truth))
        assert quality.mean == pytest.approx(sum(errors) / 4 / len(truth))


def test_every_class_says_its_errors_and_how_much_was_measured() -> None:
    truth = couples()
    release = BatchRelease(
        name="r", kind="mwem", attributes=("a",), rho=Fraction(1), every=1, ways=2, rounds=3
    )
    rows = groups_trials.evaluate_data_sets(truth, [("b", release)], 1, seed=7)
    by_key = {(q.method, q.answer, q.queries): q for q in rows}
    fit = mwem.fit_mwem(truth, release, FitContext(SeededNoise(7)))
    levels = Counter(fit.workload.queries.level[fit.answers.rows].tolist())
    asked = Counter[int]()
    for marginal in default_marginals(DOMAIN, 2):
        asked[marginal.level] += marginal.size
    for place, name in enumerate(CLASSES):
        own = ({0}, {1}, {2, 3, 4, 5}, {2, 5}, {3}, {4})[place]
        measured = by_key["mwem", "measurements", name]
        assert measured.number == sum(levels[level] for level in own) > 0
        for method, answer in (
            ("mwem", "data set"),
            ("mwem", "model"),
            ("every query", "measurements"),
            ("independent", "data set"),
        ):
            assert by_key[method, answer, name].number == sum(asked[level] for level in own)
    # What is alike in families is learnt, and beside it stands what is not.
    learnt = by_key["mwem", "data set", "relations"].mean
    assert learnt < by_key["independent", "data set", "relations"].mean / 2

    blocks = {block.split(",")[0]: block for block in quality_text(rows).split("\n\n")[1:]}
    assert tuple(blocks) == CLASSES
    for name, block in blocks.items():
        (line,) = (line for line in block.splitlines() if line.startswith("mwem: measurements"))
        assert line.endswith(f"({by_key['mwem', 'measurements', name].number})")


def test_a_relation_that_nothing_measured_says_so() -> None:
    queries = Marginal(DOMAIN, SPOUSE, person=(1,), relative=(1,)).queries()
    judged = DataSetJudge(couples(), queries).data_set(couples(9))
    shown = qualities(judged, "m", "b", DATA_SET)
    floor = Quality(
        method="m",
        budget="b",
        answer="measurements",
        queries="groups",
        number=2,
        greatest=0.1,
        mean=0.1,
    )
    text = quality_text([floor, *shown])
    assert text.count("none measured") == 2  # of all relatives, and of spouses
