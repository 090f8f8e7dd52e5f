"""Histories as columns of a table of people, and what panels have published of them."""

from __future__ import annotations

import tomllib
from contextlib import closing
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal

from stream_dp.batch.people.people_table import present_rows, study_people
from stream_dp.batch.synthesizer import Known
from stream_dp.continual.mechanisms import mechanism
from stream_dp.log import open_log
from stream_dp.log.log import Record, Stored
from stream_dp.log.message import canonical
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.releaser.job_board import KNOWN, JobBoard
from stream_dp.services.releaser.people_jobs import known_interactions, panels_of
from stream_dp.services.releaser.worker import known_to
from stream_dp.services.storage.job_records import Job
from stream_dp.study import PeopleRelease, Study
from stream_dp.study.topics import JOBS, RESULTS
from stream_dp.studyfile import parse_study

PEOPLE = 400
LABELS = ("2021-01", "2021-02", "2021-03")
STUDY = """
[study]
name = "workers"
unit = "person"
neighbours = "replace_one"
rho = 50
delta = 1e-6
[study.periods]
first = "2021-01"
every = "month"
count = 3
close = "marker"
[study.population]
size = 400
[attributes.sex]
values = ["f", "m"]
missing = "f"
[attributes.work]
values = ["none", "some"]
missing = "none"
[[releases]]
name = "pairs"
kind = "window"
attribute = "work"
width = 2
rho = 40
[[releases]]
name = "people"
kind = "mixture"
attributes = ["sex", { of = "work", last = 3 }]
at = ["2021-03"]
rho = 0.02
[run]
log = "sqlite:workers.db"
public = "sqlite:workers-public.db"
worker = false
"""
COLUMNS = ["sex", "work_2_ago", "work_1_ago", "work"]


def declared(text: str = STUDY) -> tuple[Study, PeopleRelease]:
    study = parse_study(tomllib.loads(text, parse_float=Decimal))
    (release,) = study.batches or ()
    assert isinstance(release, PeopleRelease)
    return study, release


def works(person: int, month: int) -> bool:
    """Half begin in the second month; of them a quarter have stopped in the third."""
    return month > 0 and person % 2 == 0 and not (month == 2 and person % 8 == 0)


def reports() -> list[str]:
    rows = ["person,period,sex,work"]
    for i in range(PEOPLE):
        for month, label in enumerate(LABELS):
            sex = "m" if i % 4 == 0 else "f"
            rows.append(f"p{i},{label},{sex},{'some' if works(i, month) else 'none'}")
    return rows


def test_from_reports_to_histories_that_panels_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data set alone would be off by far more: its rho is a 2000th of the panel's."""
    pytest.importorskip("jax")
    file, out = tmp_path / "workers.toml", tmp_path / "out"
    file.write_text(STUDY)
    (tmp_path / "reports.csv").write_text("\n".join(reports()))
    plan = json_output(capsys, "check", file)
    assert plan["releases"][1]["attributes"] == ", ".join(COLUMNS)
    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, LABELS[2], "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    json_output(capsys, "worker", file, "--until-idle")
    (job,) = json_output(capsys, "jobs", file)["jobs"]
    # The seed, one-ways, pairs, the last phase.
    assert job["rounds_decided"] == 4
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    json_output(capsys, "export", file, "people", out)
    table = pyarrow.parquet.read_table(out / "people.parquet")
    assert table.column_names == COLUMNS
    assert table.num_rows == PEOPLE
    months = [np.array(table[name].to_pylist()) == "some" for name in COLUMNS[1:]]
    true = [np.array([works(i, month) for i in range(PEOPLE)]) for month in range(3)]
    for first, second in ((0, 1), (1, 2)):
        for pattern in ((0, 0), (0, 1), (1, 0), (1, 1)):
            counts = [
                int(((each[first] == pattern[0]) & (each[second] == pattern[1])).sum())
                for each in (months, true)
            ]
            assert abs(counts[0] - counts[1]) <= 8, (first, pattern, counts)
    json_output(capsys, "verify", file)


def test_what_is_kept_of_the_past_is_what_was_reported() -> None:
    """Through a snapshot in between; newcomers have the missing rule's symbol before."""
    text = STUDY.replace('"replace_one"', '"add_remove"')
    text = text.replace("[study.population]\nsize = 400\n", "")
    study, release = declared(text)
    decoder, population = Decoder(study, bytes(32)), Population(study)
    for month, label in enumerate(LABELS):
        records = [
            Stored(
                partition=0,
                offset=month * PEOPLE + i,
                time=0,
                key=None,
                value=(
                    f'{{"person": "p{i}", "period": "{label}", "values":'
                    f' {{"sex": "f", "work": "{"some" if works(i, month) else "none"}"}}}}'
                ).encode(),
                headers=(),
            )
            for i in range(PEOPLE)
            if month or i % 2
        ]
        population.fold(*decoder.decode(records, 0))
        closed = population.close()
        saved = BytesIO()
        population.save(saved)
        saved.seek(0)
        population = Population.load(study, saved)
    rows = present_rows(study, release, closed.symbols)
    people = study_people(study, release)
    assert [c.name for c in people.columns] == COLUMNS
    expected = [[0, *(int(works(i, month)) for month in range(3))] for i in range(PEOPLE)]
    assert sorted(rows.tolist()) == sorted(expected)


def test_a_fit_knows_what_lies_in_its_periods_and_no_more() -> None:
    study, release = declared()
    window = mechanism(study, study.releases[0])
    answers = {
        ("pairs", t): np.arange(sum(n for _, n in window.demand(t)), dtype=np.int64) for t in (2, 3)
    }
    known = known_interactions(study, release, 3, answers)
    # Of the first window its interactions of one month and of both; later those with the newest.
    assert sorted(k.columns for k in known) == [(1,), (1, 2), (2,), (2, 3), (3,)]
    assert all(isinstance(k, Known) and k.variance > 0 for k in known)
    short = declared(STUDY.replace("last = 3", "last = 2"))[1]
    shorter = known_interactions(study, short, 3, answers)
    assert sorted(k.columns for k in shorter) == [(1,), (1, 2), (2,)]


def test_panels_of_other_people_are_not_used() -> None:
    study, release = declared()
    assert [r.name for r in panels_of(study, release)] == ["pairs"]
    free = STUDY.replace('"replace_one"', '"add_remove"')
    open_, table = declared(free.replace("[study.population]\nsize = 400\n", ""))
    assert panels_of(open_, table) == []
    other = STUDY.replace('{ of = "work", last = 3 }', '"work"').replace(
        'attribute = "work"', 'attribute = "sex"'
    )
    study, release = declared(other)
    assert [r.name for r in panels_of(study, release)] == ["pairs"]


def test_a_worker_reads_what_the_releaser_has_sent_once(tmp_path: Path) -> None:
    job = Job("job", "people", 3, "1", None, None)
    known = Known((1, 2), np.arange(6.0).reshape(2, 3) / 7, 0.1)
    fields = {"type": KNOWN, "id": job.id, "columns": known.columns, "variance": known.variance}
    values = known.values.tolist()
    sent = [
        Record(JOBS, canonical({**fields, "number": number, "values": values}), b"job", partition=0)
        for number in (0, 1)
    ]
    with closing(open_log("sqlite:log.db", tmp_path)) as log:
        log.create({JOBS: 1, RESULTS: 1})
        log.append([sent[0], *sent, Record(JOBS, b'{"type":"known","id":"job"}', partition=0)])
        board = JobBoard(log)
        board.refresh()
    read = known_to(board, job)
    assert [one.columns for one in read] == [(1, 2), (1, 2)]
    assert all((one.values == known.values).all() and one.variance == 0.1 for one in read)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("last = 3", "last = 4", "4 periods of 'work' are not there at 2021-03, period 3"),
        ('at = ["2021-03"]', "every = 2", "ask for at most 2, or begin later"),
        ("last = 3", "last = 65", "attributes.1.last: must be at most 64"),
        ("last = 3", "last = 1", "attributes.1.last: must be at least 2"),
        ('of = "work"', 'of = "hair"', "no attribute 'hair' is declared"),
        ('["sex", {', '["work", {', "an attribute stands there twice"),
        ('["sex", { of = "work", last = 3 }]', '["sex"]', "at least 2"),
    ],
)
def test_mistakes_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    file = tmp_path / "workers.toml"
    assert old in STUDY
    file.write_text(STUDY.replace(old, new))
    error = refusal(capsys, 2, "check", file)
    assert words in error
    assert "Traceback" not in error
