"""The panel: histories that only grow, read as numbers and as a table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_dp.panel import Panel, window_codes

symbols = st.tuples(st.integers(0, 20), st.integers(0, 6)).flatmap(
    lambda shape: arrays(np.uint8, shape, elements=st.integers(0, 2))
)


def labelled(array):
    return Panel(array, tuple(f"p{i}" for i in range(array.shape[1])), (0, 1, 2))


@given(symbols, st.data())
def test_a_panel_grown_column_by_column_has_every_earlier_panel_as_a_prefix(array, data):
    panel = labelled(array)
    grown = labelled(array[:, :0])
    for i, period in enumerate(panel.periods):
        grown = grown.extended(array[:, i : i + 1], [period])
        assert np.array_equal(panel.until(period).symbols, grown.symbols)
        assert panel.until(period).periods == grown.periods
    assert np.array_equal(grown.symbols, array)
    assert grown.rows == array.shape[0]
    width = data.draw(st.integers(0, array.shape[1]))
    tail = array[:, array.shape[1] - width :]
    digits = [int("".join(map(str, row)) or "0", 3) for row in tail]
    assert panel.codes(width).tolist() == digits == window_codes(tail, 3).tolist()


def test_growing_leaves_the_panel_before_as_it_was():
    before = labelled(np.zeros((3, 2), np.uint8))
    after = before.extended(np.ones((3, 1), np.uint8), ["p2"])
    after.symbols[:] = 2
    assert not before.symbols.any()
    assert before.periods == ("p0", "p1")


def test_columns_that_do_not_fit_are_refused():
    panel = labelled(np.zeros((3, 2), np.uint8))
    for shape, periods in (((2, 1), ["p2"]), ((3, 2), ["p2"]), ((3, 1), [])):
        with pytest.raises(ValueError, match="row"):
            panel.extended(np.zeros(shape, np.uint8), periods)
    with pytest.raises(ValueError, match="again"):
        panel.extended(np.zeros((3, 1), np.uint8), ["p1"])


def test_a_table_has_the_declared_values():
    array = np.array([[0, 1], [2, 2]], np.uint8)
    numbers = Panel(array, ("2021-01", "2021-02"), (5, 7, 9)).table()
    assert numbers.to_pydict() == {"row": [0, 1], "2021-01": [5, 9], "2021-02": [7, 9]}
    mixed = Panel(array, ("a", "b"), (5, 7, "absent")).table()
    assert mixed.to_pydict() == {"row": [0, 1], "a": ["5", "absent"], "b": ["7", "absent"]}


def test_a_table_without_rows_keeps_its_columns():
    empty = Panel(np.zeros((0, 2), np.uint8), ("a", "b"), (0, 1)).table()
    assert empty.column_names == ["row", "a", "b"]
    full = Panel(np.zeros((1, 2), np.uint8), ("a", "b"), (0, 1)).table()
    assert empty.schema == full.schema


def test_a_product_has_a_column_for_each_attribute():
    values = ("poor=0&job=yes", "poor=0&job=no", "poor=1&job=yes", "poor=1&job=no")
    array = np.array([[0, 3], [2, 1]], np.uint8)
    table = Panel(array, ("2021-01", "2021-02"), values).table()
    assert table.to_pydict() == {
        "row": [0, 1],
        "2021-01 poor": [0, 1],
        "2021-01 job": ["yes", "yes"],
        "2021-02 poor": [1, 0],
        "2021-02 job": ["no", "no"],
    }
    gone = Panel(np.array([[4], [1]], np.uint8), ("now",), (*values, "absent")).table()
    assert gone.to_pydict() == {
        "row": [0, 1],
        "now poor": ["absent", "0"],
        "now job": ["absent", "no"],
    }
