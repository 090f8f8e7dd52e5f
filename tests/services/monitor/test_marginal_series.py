"""Series of a column's values over periods: the numbers of `estimate`, and what is left out."""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import replace
from decimal import Decimal
from functools import cache
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from kit.data_sets import every_pair, groups_table, people_table
from kit.studies import MARKER, MONTHS, attribute, study_toml

import stream_dp
from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import Dot
from stream_dp.log.memory import MemoryLog
from stream_dp.services.monitor.answers_for_people import for_people
from stream_dp.services.monitor.marginal_series import marginal_series
from stream_dp.services.monitor.study_page import study_page
from stream_dp.services.releaser import study_in_memory

LABELS = ("2021-01", "2021-02", "2021-03")
JOBS = [f"job {i}" for i in range(10)]
PEOPLE = 600
TABLES = {
    "people": (lambda noise: people_table(noise)[0], "people:work", "work={}"),
    "members": (lambda noise: groups_table(every_pair, noise), "people:work", "people: work={}"),
    "groups": (lambda noise: groups_table(every_pair, noise), "groups:size", "households: size={}"),
}


@cache
def public() -> PublicLog:
    """Three fused months of a column of ten values, of which `job 0` is the most frequent."""
    random, columns = np.random.default_rng(1), {"person": [], "period": [], "job": []}
    for label in LABELS:
        columns["person"] += [f"p{i}" for i in range(PEOPLE)]
        columns["period"] += [label] * PEOPLE
        chances = np.arange(10, 0, -1) / 55
        columns["job"] += random.choice(JOBS, PEOPLE, p=chances).tolist()
    text = study_toml(
        name="jobs",
        unit="person",
        neighbours="replace_one",
        rho=3,
        periods={**MONTHS, **MARKER},
        size=PEOPLE,
        attributes={
            "job": attribute(JOBS, missing=JOBS[0]),
            "sex": attribute(["f", "m"], missing="f"),
        },
        releases=[
            {
                "name": "people",
                "kind": "mixture",
                "attributes": ["job", "sex"],
                "every": 1,
                "rho": 1,
            }
        ],
        run={"log": "sqlite:a.db", "public": "sqlite:b.db"},
    )
    logs: list[MemoryLog] = []

    class KeptLog(MemoryLog):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            logs.append(self)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(study_in_memory, "MemoryLog", KeptLog)
        stream_dp.run_study(
            stream_dp.parse_study(tomllib.loads(text, parse_float=Decimal)),
            pa.table(columns),
            simulation_seed=3,
        )
    return PublicLog(logs[1])


def test_a_figure_has_the_numbers_of_estimate() -> None:
    pytest.importorskip("jax")
    series = marginal_series(public(), "people", "people:job")
    assert [line.title for line in series.lines] == JOBS[:8]
    assert series.labels == LABELS
    notes = " ".join(series.notes)
    assert "the 8 of 10 values with the most synthetic rows in 2021-03" in notes
    assert "share errors" in notes
    for line, small in zip(series.lines, series.small, strict=True):
        assert [point.label for point in line.points] == [*LABELS]
        for point, row in zip(line.points, small.numbers[0].rows, strict=True):
            answer = public().answer("people", f"job={line.title}", point.label, count=False)
            shown = for_people(answer)
            unbiased = replace(answer.unbiased, fused=None)
            assert point.answer == replace(answer, fused=None, unbiased=unbiased)
            low, high = (f"{end:.2%}" for end in shown.ends)
            assert row[:3] == (point.label, f"{shown.value:.2%}", f"{low} to {high}")
    for size in ((780.0, 410.0), (340.0, 300.0)):
        dots = [mark for mark in series.drawn(size).marks if isinstance(mark, Dot)]
        assert len(dots) == 8 * 3
        assert all(0 < dot.x < size[0] and 0 < dot.y < size[1] for dot in dots)
    one = series.of_value("job 3")
    assert [line.title for line in one.lines] == ["job 3"]
    with pytest.raises(UserError, match="no series of the value 'job 9'"):
        series.of_value("job 9")
    with pytest.raises(UserError, match="has no column 'people:none'"):
        marginal_series(public(), "people", "people:none")
    page = study_page(public())
    assert "job (people) over time" in page
    assert series.notes[0] in page


def log_of(tables: dict[str, object]) -> SimpleNamespace:
    """A public log of a data set a month. tables: by period."""
    study = next(iter(tables.values())).study
    return SimpleNamespace(
        study=SimpleNamespace(
            batch=study.batch, due_periods=lambda _: [1, 2, 3], periods=study.periods
        ),
        periods_of=lambda _: [*tables],
        published_tables=lambda _, period=None: tables[period or [*tables][-1]],
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_period_is_a_gap_for_tables_of_every_kind(name: str) -> None:
    build, column, words = TABLES[name]
    tables = {
        label: replace(build(1.0 + number), period=label)
        for number, label in enumerate((LABELS[0], LABELS[2]))
    }
    release = tables[LABELS[0]].declared.name
    series = marginal_series(log_of(tables), release, column)
    assert series.labels == LABELS
    assert any("has no estimate" in note for note in series.notes)
    assert not any("share errors" in note for note in series.notes)
    for line in series.lines:
        assert [point.position for point in line.points] == [0, 2]
        for point in line.points:
            table = tables[point.label]
            answer = Conjunctions(table).answer(words.format(line.title), count=False)
            assert point.answer == limited_records(answer)
            assert point.fan[-1] == pytest.approx(answer.interval)
