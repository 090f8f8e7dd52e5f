"""Answers about two-phase tables of people: against the records without noise, and their errors."""

from dataclasses import replace

import numpy as np
import pytest
from kit.data_sets import published
from kit.studies import attribute, small_study

from stream_dp.answers.tables.ruled_out import GIVEN_RULES
from stream_dp.answers.tables.table_answer import BOUNDED, Conjunctions
from stream_dp.batch.people.compression import Encoding
from stream_dp.batch.people.match_plan import MatchPlan
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_tables import binned, coded_people, column_values

NAMES = ("sex", "age", "town", "income", "job")
TOWNS = [f"t{i}" for i in range(12)]


def study(moves, rules):
    return small_study(
        neighbours="add_remove" if moves else "replace_one",
        size=None if moves else 400,
        rho=3,
        attributes={
            "sex": attribute(["f", "m"], "f"),
            "age": attribute(["0-29", "30-39", "40+"], "40+"),
            "town": attribute(TOWNS, "t0"),
            "income": {
                **{"number": {"least": 0, "most": 90, "step": 10}, "bins": [10, 30, 60]},
                "missing": 0,
            },
            "job": attribute([1, 2], 1),
        },
        releases=[
            {
                **{"name": "p", "kind": "match", "attributes": list(NAMES), "rho": 1, "every": 1},
                **{"composites": {"who": ["sex", "age"]}, "coarser": {"income": [30]}},
                "marginals": [["who", "income", "job"], ["town", "job"]],
                "rules": [*rules],
            }
        ],
    )


def table(moves, source, *, rules=(), kept=False):
    """The truth as records, and both phases' answers with the noise of a source, or none.

    kept: whether everybody with an income below 30 has the job 1.
    """
    declared = study(moves, rules)
    release, rng = declared.batches[0], np.random.default_rng(1)
    plan = MatchPlan(Encoding.of(study_people(declared, release), release), release)
    town = np.minimum(rng.geometric(0.6, 400) - 1, 11)
    codes = [rng.integers(0, n, 400) for n in (2, 3)]
    codes += [town, rng.integers(0, 10, 400), rng.integers(0, 2, 400)]
    if kept:
        codes[4][codes[3] < 3] = 0
    people = People.of_answers(plan.encoding.source, np.stack(codes, axis=1))
    coded, rows = plan.encoding.coded(people), []

    def measured(residuals, phases, own):
        answers = NoisyAnswers.none()
        for phase in phases:
            variances = phase.variances(residuals)
            values = residuals.counter(own)(phase.candidates)
            sizes = np.diff(residuals.starts)[list(phase.candidates)].tolist()
            if source is not None:
                demand = [(variances[i], n) for i, n in zip(phase.candidates, sizes, strict=True)]
                values = values + np.concatenate(source.draw(demand).noise)
            answers = answers.joined(residuals, phase.candidates, values, variances)
        rows.extend(zip(residuals.texts(answers.rows), answers.values, answers.noise, strict=True))
        return answers

    compression = plan.compression(measured(plan.first.workload, plan.first.phases(400), coded))
    second = plan.second(compression.domain, 400)
    measured(second.workload, second.phases(400), compression.merged(coded))
    names = column_values(declared, release)
    records = {"people": coded_people(names["people"], people.answers)}
    tables = published(declared, release, records, rows)
    columns, coarse = binned(tables.columns, tables.tables)
    numbers = {"income": names["people"]["income"]}
    return replace(tables, columns=columns, tables=coarse, numbers=numbers), compression


ANSWERED = [
    "sex=f",
    "age=30-39|40+ & sex=m",
    "town=t1|t2|t7",
    "income=10..20|60..90",
    "income=0|10..20 & job=2",
    "age=0-29 & job=1",
    "sex=f & age=40+ & income=30..50|60..90 & job=1",
]
RECORDS_ALONE = ["town=t0 & job=1", "income=0 & job=2", "town=t0 & sex=f", "town=t0 & income=0"]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("query", ANSWERED)
def test_without_noise_they_count_as_the_records_do(query, moves):
    tables, _ = table(moves, None)
    answer = Conjunctions(tables).answer(query, count=True)
    assert answer.value == pytest.approx(answer.synthetic, abs=1e-9)
    assert answer.synthetic > 0
    assert answer.standard_error > 0


@pytest.mark.parametrize("query", RECORDS_ALONE)
def test_what_was_merged_or_coarser_has_no_error(query):
    tables, compression = table(True, None)
    assert compression.columns[1].merged
    answer = Conjunctions(tables).answer(query, count=True)
    assert answer.standard_error is None
    assert answer.method == BOUNDED
    assert answer.value == answer.synthetic


@pytest.mark.parametrize("moves", [False, True])
def test_stated_errors_are_those_of_the_noise(moves):
    """120 times: a root mean square error 25 % off would fail."""
    apart = {query: [] for query in ANSWERED}
    for seed in range(120):
        tables, _ = table(moves, SeededNoise(seed))
        for query in ANSWERED:
            answer = Conjunctions(tables).answer(query, count=True)
            apart[query].append((answer.value - answer.synthetic) / answer.standard_error)
    for query, errors in apart.items():
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1, abs=0.25), query


RULED = ["income=0|10..20 & job=1", "income=0|10..20", "job=1", "sex=f"]


def test_with_rules_stated_errors_are_smaller_and_those_of_the_noise():
    """120 times: a root mean square error 25 % off would fail."""
    apart, used = {query: [] for query in RULED}, dict.fromkeys(RULED, 0)
    for seed in range(120):
        ruled, free = (
            table(True, SeededNoise(seed), rules=rules, kept=True)[0]
            for rules in (["income < 30 -> job = 1"], [])
        )
        for query in RULED:
            answer, before = (Conjunctions(t).answer(query, count=True) for t in (ruled, free))
            more_precise = answer.standard_error < 0.999 * before.standard_error
            assert more_precise == (GIVEN_RULES in answer.method)
            apart[query].append((answer.value - answer.synthetic) / answer.standard_error)
            used[query] += more_precise
    assert min(used.values()) > 110
    for query, errors in apart.items():
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1, abs=0.25), query
