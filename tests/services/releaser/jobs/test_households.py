"""Households from reports to two Parquet files, by HPD-Fixed and by the commands a user gives."""

from __future__ import annotations

import csv
import re
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from kit.commands import json_output
from kit.households import LABELS, PERIODS, TEXT, HouseholdFolder
from kit.listeners import ask, confidential_listener
from kit.studies import MARKER, attribute, study_toml

from stream_dp.client import PublicLog
from stream_dp.release.published_tables import DataSet
from stream_dp.services.releaser.deployed_releaser import worker_command
from stream_dp.services.storage.deployment import Deployment

pytest.importorskip("jax")


DATA = Path(__file__).parents[5] / "shared/data/households"

ROUNDS = 4

SMALL = f'"hpd-fixed"\nrows = 20\nrounds = {ROUNDS}'

HPD = TEXT.replace('"independent"', SMALL).replace('at = ["2021-02"]', "every = 3")


HOMES = ["SUBREGCluster", "HHIncome", "HHDwelling"]

PEOPLE = ["PAge", "PGender", "PEmp"]


def survey_study(size: int) -> str:
    """The text of a study of a survey of `size` people and their households."""
    return study_toml(
        name="survey",
        neighbours="replace_in_place",
        rho=5,
        periods={"first": LABELS[0], "every": "month", "count": PERIODS, **MARKER},
        size=size,
        attributes={
            "PAge": attribute(range(11), missing=0),
            "PGender": attribute([1, 2], missing=1),
            "PEmp": attribute([1, 2, 3], missing="absent"),
        },
        groups={
            "unit": "household",
            "most": 5,
            "attributes": {
                "SUBREGCluster": {"values": [1, 2, 3, 4]},
                "HHIncome": {"values": [1, 2, 3]},
                "HHDwelling": {"values": [1, 2]},
            },
        },
        releases=[
            {
                **{"name": "survey", "kind": "hpd-fixed", "rows": 20, "rounds": ROUNDS},
                **{"attributes": PEOPLE, "ways": 2, "every": PERIODS, "rho": 5},
            }
        ],
        run={"log": "sqlite:survey.db", "public": "sqlite:survey-public.db"},
    )


def exported(capsys: pytest.CaptureFixture[str], file: Path, data_set: DataSet) -> tuple[Any, Any]:
    """The two tables of a release, written by `export`, which agree with its certificate."""
    out, about = file.parent / "out", data_set.certificate
    answer = json_output(capsys, "export", file, about.release, out)
    assert (answer["groups"], answer["people"]) == (about.groups, about.people)
    names = ("groups", "people", "measurements")
    assert answer["out"] == [str(out / f"{name}.parquet") for name in names]
    groups, people, _ = (pq.read_table(path) for path in answer["out"])
    for table in (groups, people):
        assert table.schema.metadata[b"stream-dp-release"].decode() == answer["hash"]
    # Keys tie the two, and sizes agree.
    assert groups["group"].to_pylist() == list(range(about.groups))
    counted = np.bincount(people["group"].to_numpy(), minlength=about.groups)
    assert counted.tolist() == groups["size"].to_pylist()
    assert len(people) == about.people == counted.sum()
    # Nothing but declared values; numbers beside a symbol are text.
    for table, columns in ((groups, about.columns["groups"]), (people, about.columns["people"])):
        assert sorted(table.column_names) == sorted(["group", *columns])
        for name, values in columns.items():
            integers = all(isinstance(v, int) for v in values)
            assert set(table[name].to_pylist()) <= set(values if integers else map(str, values))
    return groups, people


def test_three_periods_and_a_data_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    homes = HouseholdFolder(folder / "homes", HPD).prepare()
    with homes.releaser(worker=worker_command(homes.setting)) as releaser:
        assert releaser.run(until_idle=True)
        with confidential_listener(releaser.context.facts) as port:
            metrics = ask(port, "/metrics").body.decode()
    (job,) = json_output(capsys, "jobs", homes.file)["jobs"]
    assert (job["state"], job["rounds_decided"]) == ("done", 1 + 1 + ROUNDS)
    for line in (
        f'stream_dp_job{{job="{job["id"]}",state="done",study="homes"}} 1.0',
        f'stream_dp_job_rounds{{job="{job["id"]}",study="homes"}} {1 + ROUNDS}.0',
        f'stream_dp_job_left_seconds{{job="{job["id"]}",study="homes"}} 0.0',
    ):
        assert line in metrics.splitlines()
    (error,) = re.findall(rf'stream_dp_job_error{{job="{job["id"]}",study="homes"}} (\S+)', metrics)
    assert float(error) > 0
    verified = json_output(capsys, "verify", homes.file)["verified"]
    assert "households: 1 data set, as its certificate says" in verified

    public = homes.public()
    listed = [(d.certificate.release, d.certificate.period) for d in public.published]
    assert sorted(listed) == [
        ("households", LABELS[2]),
        ("pairs", LABELS[1]),
        ("pairs", LABELS[2]),
    ]
    data_set = public.data_set("households")
    exported(capsys, homes.file, data_set)

    about = data_set.certificate
    assert (about.kind, about.number, about.groups) == ("hpd-fixed", 3, 12)
    assert about.mechanism == "hierarchical product distributions, fixed (HPD-Fixed)"
    assert (about.rho, about.rho_spent) == (Fraction(1, 10), Fraction(3, 10))
    stated = {"rows": 20, "rounds": ROUNDS, "per_round": 1, "ways": 3}
    assert about.parameters == stated
    assert about.notes["rounds"] == 1 + ROUNDS
    assert about.notes["measured"] == 4 + ROUNDS  # an opening of four marginals
    assert about.notes["error_on_measurements"] > 0

    measured = data_set.measurements
    queries = measured["query"].to_pylist()
    assert len(queries) == len(set(queries)) == about.measured
    assert {f"groups: size={n}" for n in range(1, 5)} <= set(queries)
    assert {f"people: income={x}" for x in ("low", "high", "absent")} <= set(queries)
    # rho from what is public alone: 2 marginals of people of squared sensitivity 2, then 4 more;
    # the rest of it, a tenth of every later round, went into picking. What is about groups alone is
    # free, and has the noise of the first two.
    variances = [Fraction(v) for v in measured["variance"].to_pylist()]
    assert variances == [Fraction(100)] * 11 + [Fraction(500, 9)] * (about.measured - 11)
    measuring = 2 * Fraction(2, 2 * 100) + ROUNDS * Fraction(2 * 9, 2 * 500)
    assert measuring + ROUNDS * Fraction(2, 1000) == about.rho
    errors = np.array(measured["standard_error"].to_pylist())
    np.testing.assert_allclose(errors**2, [float(v) for v in variances])


# A survey


def survey(folder: Path, most: int, households: int) -> dict[str, dict[str, Any]]:
    """The first households of a travel survey and their people: three CSV files, and the truth.

    Everybody reports in every period, in the first one half of them with another age. The true
    answers are the last ones, except those that minors are not asked for.
    """
    with (DATA / "survey_households.csv").open() as file:
        homes = [row for row in csv.DictReader(file) if int(row["HHSize"]) <= most][:households]
    kept = {row["hhID"]: row for row in homes}
    with (DATA / "survey_persons.csv").open() as file:
        people = [row for row in csv.DictReader(file) if row["hhID"] in kept]
    write(folder / "homes.csv", ["hhID", *HOMES], homes)
    write(folder / "people.csv", ["personID", "hhID"], people)
    columns = ["personID", "month", *PEOPLE]
    for number, label in enumerate(LABELS):
        rows = [{**row, "month": label} for row in people]
        if number == 0:
            rows = [{**row, "PAge": "0"} if i % 2 else row for i, row in enumerate(rows)]
        write(folder / f"{label}.csv", columns, rows)
    return {"homes": kept, "people": {row["personID"]: row for row in people}}


def write(path: Path, columns: list[str], rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.skipif(not DATA.is_dir(), reason="the travel survey is not there")
def test_a_survey_by_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, file = survey(folder, 5, 150), folder / "survey.toml"
    file.write_text(survey_study(len(truth["people"])))
    json_output(capsys, "check", file)
    keys = ("--group", "hhID", "--person", "personID")
    answer = json_output(capsys, "groups", file, folder / "homes.csv", folder / "people.csv", *keys)
    assert (answer["groups"], answer["members"]) == (150, len(truth["people"]))
    options = ("--period", "month")  # "NA" of two people
    for label in LABELS:
        sending = ("send", file, folder / f"{label}.csv", "--person", "personID")
        (count,) = json_output(capsys, *sending, *options)["sent"].values()
        assert count == len(truth["people"])
        json_output(capsys, "close", file, label)
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    # "NA" is no declared value: it is rejected, and who is not asked for work counts as absent.
    unknown = sum(row["PEmp"] == "NA" for row in truth["people"].values())
    assert unknown
    assert json_output(capsys, "rejected", file)["rejected"] == {"value": PERIODS * unknown}
    (job,) = json_output(capsys, "jobs", file)["jobs"]
    assert job["state"] == "done"
    assert json_output(capsys, "status", file)["rho_spent"] == "5"
    lines = json_output(capsys, "verify", file)["verified"]
    assert "survey: 1 data set, as its certificate says" in lines
    with closing(Deployment.load(file).public(readonly=True)) as log:
        data_set = PublicLog(log).data_set("survey")
    groups, people = exported(capsys, file, data_set)

    assert groups.column_names == ["group", *HOMES, "size"]
    assert people.column_names == ["group", *PEOPLE]

    # Measurements are of the truth, as it was reported last, within noise that is small here.
    wanted = counts("groups", HOMES, truth["homes"]) | counts("people", PEOPLE, truth["people"])
    measured = data_set.measurements.to_pylist()
    opening = {row["query"]: row for row in measured if row["query"] in wanted}
    assert set(wanted) == set(opening)
    for query, row in opening.items():
        assert abs(row["value"] - wanted[query]) < 8 * row["standard_error"], query
        assert row["standard_error"] < 3
    # And the data set is like it.
    fitted = totals("groups", HOMES, groups) | totals("people", PEOPLE, people)
    for query, count in wanted.items():
        total = len(truth["homes"] if query.startswith("groups") else truth["people"])
        size = len(groups if query.startswith("groups") else people)
        assert abs(fitted.get(query, 0) / size - count / total) < 0.1, query


def counts(level: str, names: list[str], rows: dict[str, dict[str, str]]) -> Counter[str]:
    """By query, the number of rows that satisfy it."""
    known = [(n, "absent" if r[n] == "NA" else r[n]) for r in rows.values() for n in names]
    return Counter(f"{level}: {name}={value}" for name, value in known)


def totals(level: str, names: list[str], table: Any) -> Counter[str]:
    return Counter(f"{level}: {n}={v}" for n in names for v in table[n].to_pylist())
