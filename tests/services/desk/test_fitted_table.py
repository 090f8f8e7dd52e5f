"""A table in, a table out, in one call."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import stream_dp

N = 400
RNG = np.random.default_rng(5)
WORK = RNG.choice(["yes", "no", None], N, p=[0.6, 0.3, 0.1]).tolist()
COLUMNS = {
    "work": WORK,
    "tired": [work == "yes" for work in WORK],
    "children": RNG.integers(0, 4, N),
    "income": RNG.integers(0, 100, N) * 100,
}
VALUES = {"work": ["yes", "no", None], "tired": [True, False], "children": range(4)}
PRIVATE = {"neighbours": "add_remove", "delta": 1e-9}


def of_pandas(columns):
    frame = pytest.importorskip("pandas").DataFrame(columns)
    return frame[frame.children >= 0]


def of_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def fit(table, **arguments):
    return stream_dp.fit(table, **{"simulation_seed": 1, "values": VALUES, **PRIVATE, **arguments})


@pytest.fixture(scope="module")
def fitted():
    return fit(pa.table(COLUMNS), rho=100)


def test_a_large_budget_gives_the_table_again(fitted):
    sample = fitted.sample()
    assert sample.column_names == [*VALUES]
    assert abs(len(sample) - N) < 5
    for name, values in VALUES.items():
        for value in values:
            wanted = list(COLUMNS[name]).count(value)
            assert abs(sample[name].to_pylist().count(value) - wanted) <= 8
    tired, work = sample["tired"].to_pylist(), sample["work"].to_pylist()
    assert np.mean([t == (w == "yes") for t, w in zip(tired, work, strict=True)]) > 0.97


def test_values_keep_their_types(fitted):
    types = dict(zip(fitted.sample().schema.names, fitted.sample().schema.types, strict=True))
    assert types == {"work": pa.string(), "tired": pa.bool_(), "children": pa.int64()}


def test_answers_have_the_error_of_the_noise(fitted):
    answer = fitted.answer("work=yes & tired=true", count=True)
    truth = WORK.count("yes")
    assert abs(answer.value - truth) < 5 * answer.standard_error
    assert 0 < answer.standard_error < 2
    assert fitted.measurements.num_rows > 0


def test_the_cost_is_what_was_asked_for(fitted):
    assert fitted.rho == Fraction(100)
    small = fit(pa.table(COLUMNS), epsilon=0.5)
    assert Fraction(1, 2) - Fraction(1, 1000) < Fraction(small.epsilon) <= Fraction(1, 2)


@pytest.mark.parametrize("of", [of_pandas, of_polars])
def test_a_sample_is_of_the_library_of_the_table(of, fitted):
    table = of(COLUMNS)
    sample = fit(table, rho=100).sample()
    assert type(sample) is type(table)
    assert pa.table(sample).select([*VALUES]).to_pylist() == fitted.sample().to_pylist()


def test_a_public_table_declares_the_domain():
    public = pa.table({name: column[: N // 2] for name, column in COLUMNS.items()})
    fitted = stream_dp.fit(
        pa.table(COLUMNS),
        neighbours="replace_one",
        delta=1e-9,
        rho=1,
        domain_from=public,
        values={"income": range(0, 10_000, 100)},
        simulation_seed=1,
    )
    sample = fitted.sample()
    assert {*sample.column_names} == {*COLUMNS}
    assert len(sample) == N
    assert all(
        0 <= income < 10_000 and income % 100 == 0 for income in sample["income"].to_pylist()
    )
    assert fitted.answer("income=0..400", count=True).standard_error > 0


def test_undeclared_cells_are_counted_by_column_and_never_quoted():
    table = pa.table({"work": ["yes", "secret", None], "tired": [True, False, True]})
    with pytest.raises(stream_dp.UserError) as caught:
        fit(table, rho=1, values={"work": ["yes", "no"], "tired": [True, False]})
    (line,) = caught.value.lines
    assert line.startswith("table: 2 of the cells of 'work' are empty or undeclared; ")
    assert "secret" not in line


def test_the_symbol_of_an_empty_cell_is_no_value():
    table = pa.table({"work": ["yes", "absent"], "tired": [True, False]})
    with pytest.raises(stream_dp.UserError, match="1 of the cells of 'work'"):
        fit(table, rho=1, values={"work": ["yes", None], "tired": [True, False]})


def test_a_notebook_shows_the_guarantee(fitted):
    text = fitted._repr_html_()
    assert "one person, with its whole history, is added or removed" in text
    assert "NOT PRIVATE" in text
