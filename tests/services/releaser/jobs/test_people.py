"""A table of people, from the declaration over a worker that is killed to the file exported."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal, written
from kit.studies import attribute, window
from kit.workers import killed_and_again
from kit.workers_study import workers_toml

from stream_dp.batch.people.people_table import present_rows, study_people
from stream_dp.study import PeopleRelease
from stream_dp.studyfile import parse_study

PEOPLE, GONE = 400, 60  # who reports, and who of them is absent in the second month
LABELS = ("2021-01", "2021-02")
WORK = ("none", "some", "full")
ROUNDS = 5  # the seed, the number of people, one-ways, pairs, the last phase


def study(relation: str = "add_remove") -> str:
    return workers_toml(
        rho=12,
        months=2,
        relation=relation,
        attributes={
            "sex": attribute(["f", "m"], missing="absent"),
            "work": attribute(WORK, missing="absent"),
        },
        releases=[
            window("pairs", "work", width=1, rho=2),
            {
                **{"name": "people", "kind": "mixture", "attributes": ["sex", "work"]},
                **{"at": [LABELS[1]], "rho": 8},
            },
        ],
    )


def write_reports(folder: Path) -> None:
    """All men work full time, all women some; a few are gone in the second month."""
    rows = ["person,period,sex,work"]
    for i in range(PEOPLE):
        for number, label in enumerate(LABELS):
            if number == 0 or i >= GONE:
                rows.append(f"p{i},{label}," + ("f,some" if i % 4 else "m,full"))
    (folder / "reports.csv").write_text("\n".join(rows))


# In rounds too: there is one pair, so that the second of two rounds is the last, as it is at once.
@pytest.mark.parametrize(
    ("log", "declared"),
    [("sqlite", ""), ("sqlite", "2"), pytest.param("kafka", "", marks=pytest.mark.slow)],
)
def test_from_reports_to_a_table_of_people(
    log: str,
    declared: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    pytest.importorskip("jax")
    text = study()
    if declared:
        text = text.replace('kind = "mixture"', f'kind = "mixture"\nrounds = {declared}')
    file, out = written(text, tmp_path, log, request, capsys), tmp_path / "out"
    write_reports(tmp_path)

    plan = json_output(capsys, "check", file)
    (planned,) = (r for r in plan["releases"] if r["name"] == "people")
    assert planned["charges"] == {LABELS[0]: "0", LABELS[1]: "8"}
    assert Fraction(plan["rho_planned"]) == 10

    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, LABELS[1], "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    if declared:
        json_output(capsys, "worker", file, "--until-idle")
    else:
        killed_and_again(file, ROUNDS, before=4)
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}

    exported = json_output(capsys, "export", file, "people", out)
    assert exported["out"][0] == str(out / "people.parquet")
    assert sorted(path.name for path in out.glob("*.parquet")) == [
        "covariance.parquet",
        "measurements.parquet",
        "people.parquet",
    ]
    table = pyarrow.parquet.read_table(out / "people.parquet")
    assert table.column_names == ["sex", "work"]
    # Noise of the number of people has the variance 1 / (2 * .02 * 8), about 3.
    assert exported["people"] == table.num_rows
    assert abs(table.num_rows - (PEOPLE - GONE)) < 12
    pairs = list(zip(*(table[name].to_pylist() for name in ("sex", "work")), strict=True))
    shares = [pairs.count(pair) / len(pairs) for pair in (("f", "some"), ("m", "full"))]
    assert shares == pytest.approx([0.75, 0.25], abs=0.05)
    answer = json_output(capsys, "estimate", file, "people", "sex=f & work=some", "--count")
    assert abs(answer["value"] - 255) < 8 * answer["standard_error"] < 80
    (example, *_) = json_output(capsys, "estimate", file, "people")["people"]
    assert json_output(capsys, "estimate", file, "people", example)["standard_error"] > 0
    assert "did you mean 'work'?" in refusal(capsys, 2, "estimate", file, "people", "wrk=some")
    json_output(capsys, "verify", file)
    rows = json_output(capsys, "releases", file)
    assert "people" in str(rows)


def test_under_each_relation_the_plan_is_checked_and_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workers.toml"
    for relation in ("add_remove", "replace_one", "replace_in_place"):
        file.write_text(study(relation))
        facts = {r["name"]: r for r in json_output(capsys, "check", file)["releases"]}
        assert facts["people"]["attributes"] == "sex, work"
    for old, new, words in (
        ('attributes = ["sex", "work"]', 'attributes = ["sex"]', "at least 2"),
        ('"sex", "work"]', '"sex", "hair"]', "no attribute 'hair'"),
        ('kind = "mixture"', 'kind = "mixtures"', "must be one of"),
        ('kind = "mixture"', 'kind = "mixture"\nrows = 3', "rows: must be 'locations'"),
        ('kind = "mixture"', 'kind = "mixture"\nrounds = -1', "rounds: must be at least 0"),
        ('kind = "mixture"', 'kind = "mixture"\nrounds = 2.5', "rounds: must be a whole number"),
        (
            'kind = "mixture"',
            'kind = "mixture"\nper_round = 2',
            "declare `rounds`, or leave it out",
        ),
        ('kind = "mixture"', 'kind = "match"\nrounds = 3', "rounds: 'match' has none"),
        ('kind = "mixture"', 'kind = "hpd-fixed"', "declare [groups]"),
    ):
        assert old in study()
        file.write_text(study().replace(old, new))
        error = refusal(capsys, 2, "check", file)
        assert words in error
        assert "Traceback" not in error


def test_absent_people_are_no_rows() -> None:
    declared = parse_study(tomllib.loads(study(), parse_float=Decimal))
    release = declared.batch("people")
    assert isinstance(release, PeopleRelease)
    symbols = {"sex": np.array([0, 1, 2, 2]), "work": np.array([1, 3, 0, 3])}
    rows = present_rows(declared, release, symbols)
    assert rows.tolist() == [[0, 1], [1, 3], [2, 0]]
    own = study_people(declared, release)
    assert (own.moves, own.replaced, own.size) == (True, False, None)
    replaced = study_people(
        parse_study(tomllib.loads(study("replace_one"), parse_float=Decimal)), release
    )
    assert (replaced.moves, replaced.replaced, replaced.size) == (True, True, None)
