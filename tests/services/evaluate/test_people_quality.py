"""`evaluate` on tables of people: errors by class, scores, baselines, and the command."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from kit.commands import json_output, refusal
from kit.studies import MARKER, attribute, study_toml

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import all_residuals, marginal_counts
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.commands import cli
from stream_dp.services.evaluate.groups_trials import independent_people
from stream_dp.services.evaluate.table_judge import (
    F1,
    PMSE,
    TableJudge,
    fitted_classifier,
    indicators,
    macro_f1,
    pmse,
)
from stream_dp.services.evaluate.table_report import qualities

RNG = np.random.default_rng(3)


def people(codes: object, sizes: tuple[int, ...], **facts: object) -> People:
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes))
    relation = {"moves": True, "replaced": False, **facts}
    return People(PeopleDomain(columns, **relation), np.asarray(codes))  # type: ignore[arg-type]


def dependent(n: int = 1500) -> People:
    """Three columns: the second mostly follows the first, the third nothing."""
    first = RNG.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    second = np.where(RNG.random(n) < 0.9, first, RNG.integers(4, size=n))
    return people(np.stack([first, second, RNG.integers(3, size=n)], axis=1), (4, 4, 3))


def test_errors_and_variations_of_a_known_change() -> None:
    """One of four people moves from (0, 1) to (1, 1)."""
    judge = TableJudge(people([[0, 0], [0, 1], [1, 0], [1, 1]], (2, 2)))
    other = people([[0, 0], [1, 1], [1, 0], [1, 1]], (2, 2))
    one, two = qualities(judge.data_set(other, frozenset({(0,), (1,)})), "m", "b", "data set")
    assert (one.queries, one.number, one.greatest) == ("1 column, measured", 4, 0.25)
    assert one.mean == pytest.approx(0.5 / 4)
    assert (two.queries, two.number, two.greatest) == ("2 columns, held out", 4, 0.25)
    assert two.mean == pytest.approx(0.5 / 4)
    scores = judge.scores(other, seed=1)
    assert scores["TV of 1 column"] == pytest.approx(0.25 / 2)
    assert scores["worst TV of 1 column"] == scores["TV of 2 columns"] == pytest.approx(0.25)
    same = judge.data_set(judge.people, frozenset())
    assert [q.greatest for q in qualities(same, "m", "b", "data set")] == [0, 0]


def test_a_classifier_learns_what_can_be_learnt() -> None:
    rows = RNG.integers(3, size=(600, 2))
    labels = (rows[:, 0] == 1).astype(int)
    classifier = fitted_classifier(indicators(rows, (3, 3)), labels, 2)
    likely = classifier.probabilities(indicators(rows, (3, 3)))
    assert likely.sum(axis=1) == pytest.approx(np.ones(600))
    assert (likely.argmax(axis=1) == labels).all()
    # Without weights the share of each class is the best there is.
    nothing = fitted_classifier(indicators(np.zeros((600, 1), int), (1,)), labels, 2)
    shares = nothing.probabilities(indicators(np.zeros((1, 1), int), (1,)))[0]
    assert shares[1] == pytest.approx(labels.mean(), abs=0.01)
    # Of class 0 both are right; of class 1 one of two, of class 2 none.
    assert macro_f1(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])) == pytest.approx(
        (1 + 2 / 3 + 0) / 3
    )


def test_scores_tell_dependence_from_independence() -> None:
    true = dependent()
    judge, values = TableJudge(true), {}
    shuffled = np.stack([RNG.permutation(column) for column in true.codes.T], axis=1)
    again = true.codes[RNG.choice(true.N, true.N)]
    for name, codes in (("shuffled", shuffled), ("again", again)):
        other = People(true.domain, codes)
        values |= {(name, measure): v for measure, v in judge.scores(other, seed=1).items()}
    assert values["again", F1] > values["shuffled", F1] + 0.2
    assert values["shuffled", PMSE] > 5 * values["again", PMSE]
    apart = people(np.zeros((400, 2)).astype(int), (2, 2)).codes
    assert pmse(apart, apart + 1, (2, 2)) == pytest.approx(0.25, abs=0.01)
    assert pmse(apart, apart, (2, 2)) == pytest.approx(0, abs=1e-6)


def test_a_measured_marginal_is_rebuilt_from_its_residuals() -> None:
    """Without noise to speak of: the marginal itself; a set that lacks an interaction has none."""
    true = dependent(300)
    residuals = all_residuals(true.domain, 3, 1000)
    candidates = tuple(range(residuals.candidates))
    weights = (Fraction(1),) * len(candidates)
    phase = Everything(Fraction(10**9), candidates, weights, PairFilter(residuals))
    variances, answers = phase.variances(residuals), NoisyAnswers.none()
    values = residuals.counter(true)(candidates)
    answers = answers.joined(residuals, candidates, values, variances)
    targets = Targets.of(residuals, answers)
    for columns in ((0,), (0, 2), (0, 1, 2)):
        shares = marginal_counts(true, columns) / true.N
        assert targets.marginal(columns) == pytest.approx(shares, abs=1e-9)


@pytest.mark.parametrize(
    "facts",
    [{}, {"moves": False, "replaced": True, "size": 3}, {"replaced": True}],
    ids=["comes and goes", "replaced", "both"],
)
def test_independent_columns_cost_rho(facts: dict[str, object]) -> None:
    """By brute force: the largest change of all columns' counts, over the noise that is drawn."""
    demands = []

    class Counted(SeededNoise):
        def draw(self, demand):  # type: ignore[no-untyped-def]
            demands.extend(demand)
            return super().draw(demand)

    rest, rho = [(0, 1), (1, 2), (0, 0)], Fraction(2, 7)
    own = people(rest, (2, 3), **facts)
    assert independent_people(own, rho, Counted(1), 1).domain == own.domain
    variances = {variance for variance, _ in demands}
    assert len(variances) == 1
    everybody = list(product(range(2), range(3)))

    def squared(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> int:
        counts = [
            [np.bincount([r[c] for r in rows], minlength=3) for c in range(2)]
            for rows in (before, after)
        ]
        return int(sum(np.square(a - b).sum() for a, b in zip(*counts, strict=True)))

    changes = [squared(rest, [*rest, x]) for x in everybody if own.domain.moves]
    if own.domain.replaced:
        changes += [squared([*rest, x], [*rest, y]) for x in everybody for y in everybody]
    assert Fraction(max(changes)) / (2 * variances.pop()) == rho


STUDY = study_toml(
    name="people",
    unit="person",
    neighbours="add_remove",
    rho=20,
    size=None,
    periods={"first": "2021-01", "every": "month", "count": 3, **MARKER},
    attributes={
        "sex": attribute(["f", "m"], missing="absent"),
        "work": attribute(["none", "some", "full"], missing="absent"),
    },
    releases=[
        {
            **{"name": "table", "kind": "mixture", "attributes": ["sex", "work"]},
            **{"at": ["2021-01", "2021-02"], "rho": 4},
        }
    ],
    run={"log": "sqlite:people.db", "public": "sqlite:people-public.db"},
)


def write_truth(folder: Path) -> None:
    """In the second month all men work full time and all women some; 20 of 200 are gone."""
    with (folder / "truth.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "period", "sex", "work"])
        for i in range(200):
            rows.writerow([f"p{i}", "2021-01", "f", "none"])
            if i >= 20:
                rows.writerow([f"p{i}", "2021-02", *(("f", "some") if i % 4 else ("m", "full"))])


def test_the_command_judges_a_table_of_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(STUDY)
    write_truth(tmp_path)
    words = ("people.toml", "truth.csv", "--repetitions", "2", "--seed", "5", "--out", "out")
    (report,) = json_output(capsys, "evaluate", *words)["releases"]
    assert (report["groups"], report["people"], report["period"]) == (0, 180, "2021-02")
    methods = ("mixture", "independent", "another sample")
    of_pairs = [q for q in report["quality"] if q["queries"].startswith("2 columns")]
    assert [(q["method"], q["answer"]) for q in of_pairs] == [
        *((m, "data set") for m in methods),
        ("mixture", "measurements"),
    ]
    values = {(s["method"], s["measure"]): s["value"] for s in report["scores"]}
    assert values["mixture", "TV of 2 columns"] < values["independent", "TV of 2 columns"] / 2
    assert values["mixture", "macro F1"] > values["independent", "macro F1"]
    assert len(report["each_score"]) == 2 * len(report["scores"])
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"quality.txt", "quality.json", "table-quality.svg"}
    text = (tmp_path / "out" / "quality.txt").read_text()
    assert text.startswith("CONFIDENTIAL")
    assert "table (mixture) at 2021-02: 180 people" in text
    assert text.splitlines()[-1].startswith("macro F1  ")
    assert json.loads((tmp_path / "out" / "quality.json").read_text())["confidential"] is True


def test_a_period_of_a_study_without_data_sets_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.toml").write_text(STUDY)
    write_truth(tmp_path)
    files = (tmp_path / "people.toml", tmp_path / "truth.csv")
    assert "--at: '2022-01': not one of" in refusal(
        capsys, 2, "evaluate", *files, "--at", "2022-01"
    )
    assert "--groups: goes with releases of groups" in refusal(
        capsys, 2, "evaluate", *files, "--groups", "x.csv"
    )
    assert cli.main(["check", str(files[0])]) == 0
