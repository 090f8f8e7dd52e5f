"""Two-way tables of data sets: estimates with errors where measurements say them."""

from types import SimpleNamespace

import numpy as np
import pytest
from kit.data_sets import every_pair, groups_table, people_table

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.figures.marks import Box
from stream_dp.release.answer import Answer
from stream_dp.services.monitor.answers_for_people import for_people
from stream_dp.services.monitor.two_way import FEWER, MORE, beyond_independence, two_way

CASES = {
    "people": (lambda: people_table(1.0, moves=True)[0], "people:age:sex", "age={} & sex={}"),
    "members": (
        lambda: groups_table(every_pair, noise=1.0),
        "people:income:work",
        "people: income={} & work={}",
    ),
    "groups": (
        lambda: groups_table(every_pair, noise=1.0),
        "groups:region:size",
        "households: region={} & size={}",
    ),
}


def public_of(tables):
    labels = {"income": SimpleNamespace(label="Income in euros", value_label=None)}
    return SimpleNamespace(
        published_tables=lambda *_: tables, study=SimpleNamespace(attributes=labels)
    )


@pytest.mark.parametrize("name", CASES)
def test_cells_are_estimates_with_half_of_their_intervals(name):
    build, pair, words = CASES[name]
    tables = build()
    table = two_way(public_of(tables), "x", None, pair)
    assert "intervals" in table.caption
    for value, cells in table.rows:
        for other, cell in zip(table.columns, cells, strict=True):
            query = words.format(value, other)
            answer = Conjunctions(tables).answer(query, count=False)
            shown = for_people(limited_records(answer))
            assert cell.share == pytest.approx(shown.value)
            assert cell.interval == pytest.approx(shown.interval)
            assert cell.unbiased.value == pytest.approx(answer.value)
    chart = table.drawn((560.0, 200.0))
    boxes = [mark for mark in chart.marks if isinstance(mark, Box)]
    assert len(boxes) == len(table.rows) * len(table.columns)
    assert all(b.x >= 0 and b.x + b.width <= 560 and b.y + b.height <= 200 for b in boxes)


def joint(shares, error):
    answers = [
        Answer("r", "q", "p", "share", "people", float(s), error, (s - error, s + error), "m")
        for s in np.ravel(shares)
    ]
    return JointAnswers(tuple(answers), np.eye(len(answers)) * error**2)


def test_cells_are_marked_beyond_independence_and_the_noise():
    independent = np.outer([0.5, 0.3, 0.2], [0.6, 0.4])
    moved = independent + np.array([[0.02, -0.02], [-0.02, 0.02], [0.0, 0.0]])
    assert beyond_independence(joint(moved, 0.001), (3, 2)) == [MORE, FEWER, FEWER, MORE, "", ""]
    assert beyond_independence(joint(moved, 0.1), (3, 2)) == [""] * 6
    assert beyond_independence(joint(independent, 1e-6), (3, 2)) == [""] * 6


def test_noise_alone_marks_a_cell_in_at_most_one_of_twenty_tables():
    random, error, marked = np.random.default_rng(5), 0.004, 0
    independent = np.outer([0.5, 0.3, 0.2], [0.6, 0.4])
    for _ in range(2000):
        noisy = independent + random.normal(0, error, independent.shape)
        marked += any(beyond_independence(joint(noisy, error), (3, 2)))
    # The bound is 5 %; with correlated cells the rate is lower, and not nearly 0.
    assert 0.01 < marked / 2000 < 0.065


def test_where_nothing_was_measured_cells_are_the_records_own():
    tables = groups_table()
    public = public_of(tables)
    table = two_way(public, "x", None, "people:income:work")
    assert table.title == "Income in euros by work (people), % of the synthetic people"
    assert table.caption == "shares of the synthetic people"
    cells = [cell for _, row in table.rows for cell in row]
    assert sum(cell.share for cell in cells) == pytest.approx(1)
    assert all(cell.interval is None and not cell.mark for cell in cells)
    assert table.reading == "No error of these shares is known."
