"""Two-way tables of data sets: estimates with errors where measurements say them."""

from types import SimpleNamespace

import pytest
from kit.data_sets import every_pair, groups_table, people_table

from stream_dp.answers.tables.table_answer import answering
from stream_dp.services.pages.groups_figures import two_way

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


@pytest.mark.parametrize("name", CASES)
def test_cells_are_estimates_with_half_of_their_intervals(name):
    build, pair, words = CASES[name]
    tables = build()
    table = two_way(SimpleNamespace(published_tables=lambda *_: tables), "x", None, pair)
    assert "intervals" in table.caption
    for value, cells in table.rows:
        for other, (text, _) in zip(table.columns, cells, strict=True):
            query = words.format(value, other)
            answer = answering(tables).answer(tables, query, count=False)
            share, half = text.replace("%", "").split(" ± ")
            assert float(share) == pytest.approx(100 * answer.value, abs=0.006)
            low, high = answer.interval
            assert float(half) == pytest.approx(50 * (high - low), abs=0.006)


def test_where_nothing_was_measured_cells_are_the_records_own():
    tables = groups_table()
    public = SimpleNamespace(published_tables=lambda *_: tables)
    table = two_way(public, "x", None, "people:income:work")
    assert table.caption == "shares of the synthetic people"
    shares = [float(text.strip("%")) for _, cells in table.rows for text, _ in cells]
    assert sum(shares) == pytest.approx(100, abs=0.05)
