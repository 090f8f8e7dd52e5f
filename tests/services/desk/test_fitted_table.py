"""A table in, a table out, in one call."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import stream_dp
from stream_dp.services.desk.declared_columns import DeclaredColumn

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


def test_rules_hold_in_every_row():
    """Also what nobody of the table keeps; a rule that is none is refused in one line."""
    cells = {"a": RNG.integers(0, 5, N), "b": RNG.integers(0, 5, N), "c": RNG.choice(["x", "y"], N)}
    values = {"a": range(5), "b": range(5), "c": ["x", "y"]}
    derived = {"c": {"of": "b", "values": dict.fromkeys(range(5), "x") | {4: "y"}}}
    table = pa.table(cells)
    ruled = fit(table, rho=1, values=values, rules=["a <= b", "a = 0 -> b != 4"], derived=derived)
    rows = ruled.sample().to_pylist()
    assert len(rows) > 300
    for row in rows:
        assert row["a"] <= row["b"]
        assert (row["a"], row["b"]) != (0, 4)
        assert (row["c"] == "y") == (row["b"] == 4)
    for arguments, line in (
        ({"rules": "a <= b"}, "rules: must be a list of texts"),
        ({"rules": ["a = b"]}, "rules.0: is no rule; write such as"),
        ({"rules": ["a <= d"]}, "rules.0: 'd' is none of the release's attributes"),
        ({"derived": {"d": {"of": "a", "values": {}}}}, "derived: 'd' is none of the columns"),
        ({"derived": {"c": ["a"]}}, "derived: 'c' must be a dict of 'of'"),
        ({"derived": {"c": {"of": "a", "values": {1: "x"}}}}, "derived.c.values: none for a = 0"),
    ):
        with pytest.raises(stream_dp.UserError) as raised:
            fit(table, rho=1, values=values, **arguments)
        assert raised.value.lines[0].startswith(line)


def test_values_keep_their_types(fitted):
    types = dict(zip(fitted.sample().schema.names, fitted.sample().schema.types, strict=True))
    assert types == {"work": pa.string(), "tired": pa.bool_(), "children": pa.int64()}


def test_types_of_the_table_come_back():
    pandas = pytest.importorskip("pandas", "2.2")
    frame = pandas.DataFrame(COLUMNS).astype({"work": "category", "children": "Int8"})
    frame = frame[["children", "tired", "work"]].astype({"tired": bool})
    sample = fit(frame, rho=100).sample()
    assert sample.dtypes.equals(frame.dtypes)
    assert abs(sample.work.isna().sum() - frame.work.isna().sum()) <= 8
    rare = fit(frame, rho=100, values={**VALUES, "work": ["yes", "no", "never", None]}).sample(9999)
    assert "never" in {*sample.work, *rare.work} or rare.work.dtype == frame.work.dtype
    table = pa.table(COLUMNS).cast(
        pa.schema(
            {
                "work": pa.dictionary(pa.int8(), pa.string()),
                "tired": pa.bool_(),
                "children": pa.int16(),
                "income": pa.int64(),
            }
        )
    )
    assert fit(table, rho=100).sample().schema == table.select([*VALUES]).schema


def test_it_says_how_the_table_was_read(fitted):
    names = ", ".join(column.name for column in fitted.columns)
    assert repr(fitted).startswith(f"<FittedTable of {names}: rho ")
    assert fitted.reading == (
        "work: yes, no; or empty",
        "tired: true, false",
        "children: 0, 1, 2, 3",
        "left out: income",
    )
    incomes = {"income": [*range(0, 10_000, 100)], "children": range(4)}
    hours = {"hours": [-9, -8, range(98)], "tired": [True, False]}
    table = pa.table({**COLUMNS, "hours": [5] * N})
    assert fit(table, rho=1, values=incomes).reading[0].startswith("income: 0, 100, 200")
    assert fit(table, rho=1, values=hours).reading[0] == (
        "hours: numbers from 0 to 97; -9, -8 are no numbers"
    )


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
    assert fitted.answer("income=100..400", count=True).standard_error > 0


@pytest.mark.parametrize(
    ("ages", "edges"),
    [
        (range(16, 111), [*range(20, 106, 5)]),  # 110 alone belongs to the last bin
        (range(18, 106), [*range(25, 101, 5)]),  # 18 and 19, to the first
        (range(0, 98), [1, *range(5, 96, 5)]),
        (range(-500, 501), [*range(-450, 0, 50), 0, 1, *range(50, 401, 50), 450]),
        (range(0, 910, 7), [7, *(-(-m // 7) * 7 for m in range(50, 851, 50))]),
        (range(65, 10**6), [*range(50_000, 10**6, 50_000)]),
    ],
)
def test_bins_begin_at_round_numbers(ages, edges):
    assert [*DeclaredColumn.of("a", ages).edges] == edges


def hours_of(people):
    """Hours of people of whom 39 % refuse and 1 % do not know, as in labour force surveys."""
    rng = np.random.default_rng(3)
    worked = rng.choice([0, *range(5, 98)], people, p=[0.2, *[0.8 / 93] * 93])
    return rng.choice([-9, -8, 1], people, p=[0.39, 0.01, 0.6]), worked


@pytest.mark.parametrize(
    "declared",
    [
        {"values": [-9, -8, range(98)]},
        {"values": range(98), "special": [-9, -8]},
        {"values": [None, range(98)], "special": [-9], "empty": -8},
    ],
    ids=["among the values", "special", "empty"],
)
def test_special_codes_are_values_of_their_own(declared, recwarn):
    code, worked = hours_of(3000)
    hours = np.where(code < 0, code, worked)
    empty = declared.get("empty")
    cells = [None if hour == empty else int(hour) for hour in hours]
    table = pa.table({"hours": cells, "sex": np.where(worked > 40, "m", "f")})
    special = {"hours": declared["special"]} if "special" in declared else None
    values = {"hours": declared["values"], "sex": ["f", "m"]}
    fitted = fit(table, rho=10, values=values, special=special)
    sample = fitted.sample()["hours"].to_pylist()
    for code in (-9, -8):
        share = np.mean([hour == (None if code == empty else code) for hour in sample])
        assert share == pytest.approx((hours == code).mean(), abs=0.005)
        if code != empty:
            answer = fitted.answer(f"hours={code}", count=True)
            assert answer.value == pytest.approx((hours == code).sum(), abs=5)
    numbers = [hour for hour in sample if hour is not None and hour not in {-9, -8}]
    assert all(0 <= hour <= 97 for hour in numbers)
    assert np.mean(numbers) == pytest.approx(hours[hours >= 0].mean(), rel=0.01)
    at_most = fitted.answer("hours<=46", count=True).value
    assert at_most == pytest.approx(((hours >= 0) & (hours <= 46)).sum(), abs=60)
    assert not [warning for warning in recwarn if "codes" in str(warning.message)]


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        (range(-9, 98), "'hours' begins at -9, below 0 and ends in 97: if some of these numbers"),
        (range(120), None),
        (range(5), None),
    ],
)
def test_a_range_that_may_hold_codes_is_a_warning(hours, told, recwarn):
    fit(pa.table({"hours": [1, 2], "sex": ["f", "m"]}), rho=1, values={"hours": hours, **SEX})
    said = [str(warning.message) for warning in recwarn if warning.category is UserWarning]
    assert [told in line for line in said] == ([True] if told else [])


SEX = {"sex": ["f", "m"]}


@pytest.mark.parametrize(
    ("cells", "values", "line"),
    [
        (
            ["y", "secret", None],
            ["y", "n"],
            "2 of the cells of 'work' are none of its values: 1 empty, ",
        ),
        ([0.5, 1.0, 1.0], [0, 1], "1 of the cells of 'work' are none of its values: 1 with a frac"),
        ([0, 200, 1], range(100), "1 of the cells of 'work' are none of its values: 1 outside of"),
        ([0, -9, 1], range(0, 9900, 100), "1 of the cells of 'work' .*: 1 outside of the range"),
        ([0, 99.4, 1], range(100), "1 of the cells of 'work' .*: 1 outside of the range"),
    ],
)
def test_cells_without_a_code_are_counted_and_never_quoted(cells, values, line):
    table = pa.table({"work": cells, "sex": ["f", "m", "m"]})
    with pytest.raises(stream_dp.UserError, match=f"^table: {line}") as caught:
        fit(table, rho=1, values={"work": values, **SEX})
    assert "secret" not in str(caught.value)


def test_numbers_between_steps_are_rounded_with_a_word():
    pay = [float(cent) / 100 for cent in range(12_345, 12_345 + 100 * N, 100)]
    table = pa.table({"pay": pay, "sex": ["f", "m"] * (N // 2)})
    with pytest.warns(UserWarning, match="400 cells of 'pay' lie between two numbers of its range"):
        fitted = fit(table, rho=100, values={"pay": range(0, 1000, 10), **SEX})
    sample = fitted.sample()["pay"].to_numpy()
    assert not (sample % 10).any()
    assert sample.mean() == pytest.approx(np.mean(pay), rel=0.02)


def test_decimals_without_a_fraction_are_whole_numbers(recwarn):
    work = pa.array([0, 1, 1, 0]).cast(pa.decimal128(21, 2))
    table = pa.table({"work": work, "sex": ["f", "m"] * 2})
    assert fit(table, rho=1, values={"work": [0, 1], **SEX}).columns[0].values == [0, 1]
    assert not recwarn.list


def test_so_many_rows_as_are_asked_for(fitted):
    assert fitted.sample(7).num_rows == 7
    assert fitted.sample(rows=1000, seed=2).num_rows == 1000
    assert fitted.sample(1000) == fitted.sample(1000)
    share = np.mean([work == "yes" for work in fitted.sample(3 * N)["work"].to_pylist()])
    assert share == pytest.approx(WORK.count("yes") / N, abs=0.03)
    for wrong in ({"rows": 0}, {"rows": 1.5}, {"rows": True}, {"seed": -1}, {"seed": "x"}):
        with pytest.raises(stream_dp.UserError, match=f"^{next(iter(wrong))}: must be a whole num"):
            fitted.sample(**wrong)


def test_the_symbol_of_an_empty_cell_is_no_value():
    table = pa.table({"work": ["yes", "absent"], "tired": [True, False]})
    with pytest.raises(stream_dp.UserError, match="1 of the cells of 'work'"):
        fit(table, rho=1, values={"work": ["yes", None], "tired": [True, False]})


def test_a_notebook_shows_the_guarantee(fitted):
    text = fitted._repr_html_()
    assert "one person, with its whole history, is added or removed" in text
    assert "NOT PRIVATE" in text


HOMES = pa.table({"home": [1, 2, 3], "region": ["north", "south", "south"]})
MEMBERS = pa.table({"home": [1, 1, 2, 3], "work": ["yes", "no", "yes", "no"]})
OF_HOMES = {
    **{"members": MEMBERS, "key": "home", "most": 2, "rho": 1, "delta": 1e-9},
    **{"neighbours": "replace_in_place", "simulation_seed": 1, "kind": "independent"},
    "values": {"region": ["north", "south"], "work": ["yes", "no"]},
}


def test_households_are_fitted_with_their_members():
    homes, members = stream_dp.fit(HOMES, **OF_HOMES).sample()
    assert (homes.schema, members.schema) == (HOMES.schema, MEMBERS.schema)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"neighbours": "add_remove"}, "neighbours: of households, only"),
        ({"values": {"age": [1, 2]}}, "values: 'age' is a column of neither table"),
        ({"values": {"home": [1, 2]}}, "values: 'home' is a column of both tables"),
        ({"bins": {"work": [1]}}, "domain_from, bins, special, rules, derived: are for one table"),
        ({"members": None}, "key, most: are for households"),
        ({"key": None}, "key, most: with members, name the column"),
        ({"key": 1.5}, "key: 1.5 is no name of a column"),
        ({"most": 0}, "most: must be a whole number from 1 on"),
        ({"values": {"work": "yes"}}, "values: 'work' needs a list"),
    ],
)
def test_households_that_cannot_be_fitted_are_one_line(changes, line):
    with pytest.raises(stream_dp.UserError, match=f"^{line}"):
        stream_dp.fit(HOMES, **OF_HOMES | changes)
