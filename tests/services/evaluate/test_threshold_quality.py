"""Thresholds of numbers and of their sums in `evaluate`, and panels that a fit is given."""

from __future__ import annotations

import csv
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from kit.commands import json_output
from kit.studies import MARKER, attribute, small_study, study_toml

from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.projections import declared_projections
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.services.evaluate import table_report
from stream_dp.services.evaluate.table_evaluations import simulated_answers
from stream_dp.services.evaluate.table_judge import EDGES, OTHER_SUMS, SUMS, WITHIN, ThresholdJudge
from stream_dp.services.evaluate.table_report import ClassErrors, Quality
from stream_dp.services.releaser.people_jobs import known_interactions
from stream_dp.study import PeopleRelease
from stream_dp.studyfile import parse_study

NUMBER = {
    "number": {"least": 0, "most": 90, "step": 10},
    "bins": [40],
    "special": [-9],
    "missing": "absent",
}
ATTRIBUTES = {"y": attribute(["a", "b"], "a"), "n": NUMBER, "m": NUMBER}
LINEAR = [{"weights": {"n": 1, "m": -1}, "thresholds": [-10, 0]}]
RELEASE = {"name": "p", "kind": "rap", "attributes": list(ATTRIBUTES), "rho": 1, "every": 1}


def judged(**release):  # type: ignore[no-untyped-def]
    study = small_study(
        **{"attributes": ATTRIBUTES, "rho": 3, "neighbours": "add_remove", "size": None},
        releases=[{**RELEASE, **release}],
    )
    (declared,) = study.batches or ()
    domain = study_people(study, declared)
    answers = np.random.default_rng(1).integers([2, 11, 11], size=(300, 3))
    return ThresholdJudge(People.of_answers(domain, answers), declared), answers


def rows(errors: ClassErrors) -> list[Quality]:
    return table_report.qualities(errors, "m", "b", "data set")


def test_errors_of_a_known_change() -> None:
    """One of 300 people who was below all thresholds of n goes above them."""
    judge, answers = judged(linear=LINEAR, labels=["y"])
    low = np.flatnonzero((answers[:, 1] < 2) & (answers[:, 2] < 10))[0]
    changed = answers.copy()
    changed[low, 1] = 9
    other = People.of_answers(judge.people.domain, changed)
    measured = frozenset({(0, 1)})
    in_order = rows(judge.data_set(other, measured))
    qualities = {q.queries: q for q in in_order}
    edges, held_out = f"{EDGES}, measured", f"{EDGES}, held out"
    assert [q.queries for q in in_order] == [edges, held_out, WITHIN, SUMS, OTHER_SUMS]
    # By value of y an edge, two middles and two sums; one value's share falls by 1/300.
    assert (qualities[edges].number, qualities[edges].greatest) == (2, pytest.approx(1 / 300))
    assert qualities[edges].mean == pytest.approx(1 / 600)
    assert qualities[held_out].greatest == 0
    assert qualities[WITHIN].number == 2 * 2 * 2
    assert qualities[WITHIN].mean == pytest.approx(1 / 300 / 4)
    difference = 10 * (answers[low, 1] - answers[low, 2])
    assert qualities[SUMS].number == 4
    assert qualities[SUMS].mean == pytest.approx(sum(difference <= t for t in (-10, 0)) / 1200)
    assert qualities[OTHER_SUMS].greatest == pytest.approx(1 / 300)
    same = judge.data_set(judge.people, measured)
    assert [q.greatest for q in rows(same)] == [0] * 5


def test_the_noise_of_thresholds_is_that_of_sums_of_cells() -> None:
    judge, answers = judged(linear=LINEAR, labels=["y"])
    people = judge.people
    (sum_,) = declared_projections(people.domain, judge.release)
    cells = sum_.cells(people.domain, people.numbers)

    def noisy(columns: tuple[int, ...]) -> np.ndarray:
        if columns[-1] > 2:
            table = np.zeros((2, 4))
            np.add.at(table, (answers[:, 0], cells), 1)
        else:
            table = marginal_counts(people, columns).astype(float)
        table[0, 0] += 3
        return table / people.N

    measured = frozenset({(0, 1), (0, 3)})
    floors = {q.queries: q for q in rows(judge.measurements(noisy, measured))}
    assert floors.keys() == {f"{EDGES}, measured", SUMS}
    assert [q.mean for q in floors.values()] == pytest.approx([0.005, 0.005])
    assert floors[SUMS].greatest == pytest.approx(0.01)


def test_sums_alone_without_labels_and_nothing_without_numbers() -> None:
    judge, _ = judged(linear=LINEAR)
    names = {q.queries: q.number for q in rows(judge.data_set(judge.people, frozenset()))}
    assert names[SUMS] == 2
    values = {"y": ATTRIBUTES["y"], "z": attribute([1, 2], 1)}
    study = small_study(
        attributes=values,
        rho=3,
        releases=[{**RELEASE, "kind": "mixture", "attributes": ["y", "z"]}],
    )
    (declared,) = study.batches or ()
    own = People.of_answers(study_people(study, declared), np.zeros((50, 2), np.int64))
    judge = ThresholdJudge(own, declared)
    assert not judge.data_set(own, frozenset())
    assert not judge.measurements(lambda c: np.zeros(0), frozenset())


@pytest.mark.slow
def test_the_command_judges_a_table_with_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every class of queries and every score; numbers have codes wider than a byte."""
    pytest.importorskip("jax")
    file, rng = tmp_path / "numbers.toml", np.random.default_rng(3)
    wide = {"number": {"least": 0, "most": 9000, "step": 10}, "bins": [4000], "missing": "absent"}
    text = study_toml(
        **{"neighbours": "add_remove", "rho": 60, "size": None},
        periods={"first": "2021-01", "every": "month", "count": 1, **MARKER},
        attributes={"y": attribute(["a", "b"], "a"), "n": wide, "m": wide},
        releases=[{**RELEASE, "rho": 50, "labels": ["y"], "linear": LINEAR}],
        run={"log": "sqlite:n.db", "public": "sqlite:n-public.db"},
    )
    file.write_text(text)
    rows = ["person,period,y,n,m"]
    for i in range(300):
        n = int(rng.integers(900))
        rows.append(f"p{i},2021-01,{'b' if n > 450 else 'a'},{10 * n},{10 * min(n + i % 9, 900)}")
    (tmp_path / "truth.csv").write_text("\n".join(rows))
    words = (file, tmp_path / "truth.csv", "--repetitions", "1")
    (report,) = json_output(capsys, "evaluate", *words)["releases"]
    classes = {q["queries"] for q in report["quality"]}
    assert {f"{EDGES}, measured", WITHIN, SUMS, OTHER_SUMS, "2 columns, measured"} <= classes
    methods = {q["method"] for q in report["quality"] if q["queries"] == OTHER_SUMS}
    assert methods == {"rap", "independent", "another sample"}
    floors = {q["queries"] for q in report["quality"] if q["answer"] == "measurements"}
    assert {f"{EDGES}, measured", SUMS} <= floors
    assert {"pMSE", "macro F1", "TV of 2 columns", "worst TV of 3 columns"} <= {
        s["measure"] for s in report["scores"]
    }
    mean = {(q["method"], q["queries"]): q["mean"] for q in report["quality"]}
    assert mean["rap", SUMS] < mean["independent", SUMS] / 3


PANEL = study_toml(
    name="panel",
    neighbours="replace_one",
    rho=60,
    size=400,
    periods={"first": "2021-01", "every": "month", "count": 3, **MARKER},
    attributes={"sex": attribute(["f", "m"], "f"), "work": attribute([0, 1], 0)},
    releases=[
        {"name": "pairs", "kind": "window", "attribute": "work", "width": 2, "rho": 40},
        {
            **{"name": "people", "kind": "mixture", "at": ["2021-03"], "rho": "1/500"},
            "attributes": ["sex", "HISTORY"],
        },
    ],
    run={"log": "sqlite:panel.db", "public": "sqlite:panel-public.db"},
).replace('"HISTORY"', '{ of = "work", last = 3 }')


def test_panels_are_simulated_and_given_to_the_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    rng, file = np.random.default_rng(5), tmp_path / "panel.toml"
    work = np.cumsum(rng.random((400, 3)) < [0.3, 0.4, 0.5], axis=1) % 2
    with (tmp_path / "truth.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["person", "period", "sex", "work"])
        for i, own in enumerate(work.tolist()):
            rows.writerows([f"p{i}", f"2021-0{t + 1}", "f", w] for t, w in enumerate(own))

    file.write_text(
        PANEL.replace('["sex", { of = "work", last = 3 }]', '[{ of = "work", last = 2 }]')
    )
    words = (file, tmp_path / "truth.csv", "--repetitions", "2", "--seed", "1")
    (quality,) = json_output(capsys, "evaluate", *words)["quality"]["releases"]
    assert quality["panels"] == ["pairs"]
    apart = {
        s["method"]: s["value"] for s in quality["scores"] if s["measure"] == "TV of 2 columns"
    }
    # Its own rho is next to nothing: what it knows of the pairs, it knows from the panel.
    assert apart["mixture"] < 0.03 < 0.1 < apart["independent"]


def test_simulated_answers_have_the_noise_of_the_plan() -> None:
    """Interactions are unbiased, with the variance that is stated of them."""
    study = parse_study(tomllib.loads(PANEL.replace("rho = 40", "rho = 0.05"), parse_float=Decimal))
    (release,) = study.batches or ()
    assert isinstance(release, PeopleRelease)
    work = np.random.default_rng(5).integers(2, size=(400, 3))
    panel = {"work": work, "sex": np.zeros((400, 3), int)}
    apart = []
    for seed in range(400):
        answers = simulated_answers(study, release, 3, panel, seed)
        assert answers.keys() == {("pairs", 2), ("pairs", 3)}
        known = {k.columns: k for k in known_interactions(study, release, 3, answers)}
        assert known.keys() == {(1,), (2,), (3,), (1, 2), (2, 3)}
        one = known[2, 3]
        true = np.zeros((2, 2))
        np.add.at(true, (work[:, 1], work[:, 2]), 1)
        true = true - true.mean(0) - true.mean(1)[:, None] + true.mean()
        # Centred, a cell has a quarter of the variance before.
        apart.append((one.values - true)[0, 0] / np.sqrt(one.variance / 4))
    assert abs(np.mean(apart)) < 4 / 20
    assert np.var(apart) == pytest.approx(1, abs=0.28)
