"""Arrays, wide tables and long tables in, and a panel with its answers and figures out."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pytest

import stream_dp

pandas = pytest.importorskip("pandas", "2.2")
PEOPLE, MONTHS = 200, [f"2026-{month:02}" for month in range(1, 6)]
ANSWERS = np.random.default_rng(7).integers(0, 2, (PEOPLE, len(MONTHS)))
COST = {"rho": 0.05, "delta": 1e-6, "neighbours": "replace_one", "simulation_seed": 1}
LONG = {"person": "id", "period": "month", "first": "2026-01", "count": len(MONTHS)}
# As in a study file, without a symbol for nobody.
DECLARED = {
    "study": {
        **{"name": "notebook", "unit": "person", "neighbours": "replace_one", "rho": "1/20"},
        **{"delta": "1/1000000", "population": {"size": PEOPLE}},
        "periods": {"first": "2026-01", "every": "month", "count": len(MONTHS)},
    },
    "attributes": {"value": {"values": [0, 1], "missing": 0}},
    "releases": [
        {"name": "value", "kind": "window", "attribute": "value", "width": 3, "rho": "1/20"}
    ],
}


def window(table, **arguments):
    return stream_dp.window(table, **{"width": 3, **COST, **arguments})


def wide():
    return pandas.DataFrame(ANSWERS, columns=MONTHS)


def long(name="value"):
    cells = {"id": np.repeat(np.arange(PEOPLE), len(MONTHS)), "month": MONTHS * PEOPLE}
    return pa.table({**cells, name: ANSWERS.ravel()})


SHAPES = {
    "an array": (ANSWERS, {"first": "2026-01"}),
    "an array of booleans": (ANSWERS == 1, {"first": "2026-01"}),
    "an array of floats": (ANSWERS.astype(float), {"first": "2026-01"}),
    "lists": (ANSWERS.tolist(), {"first": "2026-01"}),
    "a wide table": (wide(), {}),
    "a wide table with persons": (wide().assign(who=range(PEOPLE)), {"person": "who"}),
    "a wide table with an index": (wide().set_axis(pandas.Index(range(PEOPLE), name="id")), {}),
    "a wide table of months": (
        wide().set_axis(pandas.period_range("2026-01", periods=5, freq="M"), axis=1),
        {},
    ),
    "a wide table of names": (wide().set_axis(list("abcde"), axis=1), {"first": "2026-01"}),
    "a wide table of pyarrow": (pa.table(wide()), {}),
    "a long table": (long(), {**LONG, "values": {"value": [0, 1]}}),
}


@pytest.fixture(scope="module")
def expected():
    """The public log of the same study, run over the same answers."""
    reports = pa.table(
        {"person": np.arange(1, PEOPLE + 1), **dict(zip(MONTHS, ANSWERS.T, strict=True))}
    )
    study = stream_dp.parse_study(DECLARED)
    return stream_dp.run_study(study, reports, attribute="value", simulation_seed=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_the_same_study(shape, expected):
    table, arguments = SHAPES[shape]
    fitted = window(table, **arguments)
    assert fitted.study == expected.study
    assert fitted.panel.to_pandas().equals(expected.panel("value").to_pandas())


def test_complete_answers_cost_nothing(expected):
    for query in ("value=1", "at-least 1 of last 3 value=1"):
        without = expected.answer("value", query).standard_error
        assert window(ANSWERS, first="2026-01").estimate(query).standard_error == without
        absent = window(ANSWERS, first="2026-01", missing="absent")
        assert absent.estimate(query).standard_error / without > 1.5
    fitted = window(ANSWERS)
    assert fitted.reading[-1] == "value: every person has an answer in every period, as declared"
    assert fitted.panel.values == (0, 1)


@pytest.mark.parametrize("shape", ["an array", "a wide table", "a long table"])
@pytest.mark.parametrize("cell", [None, 7])
def test_a_missing_answer_is_refused_unless_it_is_declared(shape, cell):
    """The treatment of a table never follows from one person's empty cell."""
    cells = ANSWERS.astype(object)
    cells[3, 2] = cell
    table, arguments = {
        "an array": (cells, {}),
        "a wide table": (pa.table([pa.array(c) for c in cells.T.tolist()], MONTHS), {}),
        "a long table": (
            long().set_column(2, "value", pa.array(cells.ravel().tolist())),
            {**LONG, "values": {"value": [0, 1]}},
        ),
    }[shape]
    refused = {
        None: r"^table: 'value' .* 999 of 1000 .*'absent'",
        7: r"^table: 1 cells of 'value' have other values than the declared 0, 1; .* values=",
    }[cell]
    with pytest.raises(stream_dp.UserError, match=refused):
        window(table, **arguments)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        absent = window(table, **arguments, missing="absent")
    assert absent.panel.values == (0, 1, "absent")
    assert [str(w.message).split(":")[0] for w in told] == ["window"] * (cell is not None)
    assert [w.filename for w in told] == [__file__] * (cell is not None)


def test_a_person_without_a_row_is_a_missing_answer():
    with pytest.raises(stream_dp.UserError, match="998 of 1000"):
        window(long().slice(2), **LONG, values={"value": [0, 1]})
    with pytest.raises(stream_dp.UserError, match="999 of 1000"):
        window(
            pa.concat_tables([long().slice(1), long().slice(7, 1)]),
            **LONG,
            values={"value": [0, 1]},
        )


def test_columns_of_a_wide_table_are_periods_in_order():
    for names, line in (
        (["2026-01", *MONTHS[2:], "2026-06"], "column '2026-03' stands where the period 2026-02"),
        (["sex", *MONTHS[1:]], "column 'sex' is no period"),
    ):
        with pytest.raises(stream_dp.UserError, match=f"^table: {line}"):
            window(wide().set_axis(names, axis=1))
    with pytest.raises(stream_dp.UserError, match="count: the table has 5 columns of periods"):
        window(wide(), count=4)


@pytest.mark.parametrize("first", [{}, {"first": "2026-01"}])
def test_a_column_of_persons_is_named(first: dict[str, str]) -> None:
    """Of a long table the words must not speak of two columns, because it has one."""
    long = pa.table({"person": [1, 1, 2, 2], "period": ["2026-01", "2026-02"] * 2, "a": [0] * 4})
    with pytest.raises(stream_dp.UserError, match=r"has a column 'person': .* needs period="):
        stream_dp.window(long, width=1, rho=1, delta=1e-6, neighbours="replace_one", **first)


def test_answers_begin_with_the_first_period():
    fitted = window(ANSWERS, first="2026-01")
    estimates = fitted.estimates("value=1")
    assert estimates["period"].to_pylist() == MONTHS
    truth = ANSWERS.mean(axis=0)
    assert np.all(np.abs(estimates["value"] - truth) < 5 * estimates["standard_error"].to_numpy())
    assert fitted.estimate("value=1", "2026-01").value == estimates["value"][0].as_py()
    assert np.asarray(fitted.panel).shape == (PEOPLE, len(MONTHS))


def test_a_long_table_is_one_for_packages_of_panel_data():
    frame = window(ANSWERS, first="2026-01", values={"work": [0, 1]}).long()
    assert [level.dtype.kind for level in frame.index.levels] == ["i", "M"]
    assert frame.work.dtype.kind == "i"
    assert len(frame) == ANSWERS.size
    assert str(frame.index[1][1].date()) == "2026-02-01"
    assert [level.dtype.kind for level in window(ANSWERS).long().index.levels] == ["i", "i"]


def test_totals_and_both():
    totals = stream_dp.cumulative(ANSWERS, **COST)
    truth = (ANSWERS.sum(axis=1) >= 2).sum()
    answer = totals.estimate("total at-least 2", count=True)
    assert abs(answer.value - truth) < 5 * answer.standard_error
    words = np.where(ANSWERS == 1, "y", "n")
    both = stream_dp.joint(words, width=2, event="y", values={"work": ["y", "n"]}, **COST)
    for query in ("pattern y ?", "total at-least 2"):
        answer = both.estimate(query, count=True)
        assert abs(answer.value - truth) < PEOPLE
        assert answer.standard_error < 40
    assert both.names == ("work",)


def test_a_figure_says_what_it_shows():
    pytest.importorskip("matplotlib").use("Agg")
    fitted = window(ANSWERS, first="2026-01")
    axes = fitted.plot()
    assert [round(y, 6) for y in axes.lines[0].get_ydata()] == [
        round(100 * value, 6) for value in fitted.estimates("value=1")["value"].to_pylist()
    ]
    assert axes.get_title(loc="left") == "value=1"
    assert axes.get_ylabel() == "% of all persons"
    note = axes.get_xlabel()
    assert "SIMULATED NOISE: protects nobody" in note
    assert "95 % intervals" in note
    assert "rho 0.05" in note
    totals = stream_dp.cumulative(ANSWERS, **{**COST, "simulation_seed": None}).plot(ax=axes)
    assert "SIMULATED" not in totals.get_xlabel()
    assert len(axes.get_legend().get_texts()) == 3


def test_a_notebook_shows_a_fan_for_every_column():
    both = {"work": ANSWERS.ravel(), "home": 1 - ANSWERS.ravel()}
    table = pa.table({"id": long()["id"], "month": long()["month"], **both})
    fitted = window(table, **LONG, values={"work": [0, 1], "home": [0, 1]})
    html = fitted._repr_html_()
    assert html.count('src="data:image/svg+xml;base64,') == 2
    assert "every person has an answer in every period" in html
    assert "SIMULATED" in html or "SEEDED" in html
    with pytest.raises(stream_dp.UserError, match=re.escape("fitted['work']")):
        _ = fitted.panel
    assert fitted["home"].panel.rows == PEOPLE


def test_a_name_says_what_it_is():
    fitted = window(ANSWERS)
    assert repr(fitted) == "<FittedPanel of value: 5 periods from 1, rho 0.05 SIMULATED>"
    assert repr(fitted.public) == "<PublicLog of study 'notebook': 3 releases of value>"
    assert dir(stream_dp) == sorted([*stream_dp.__all__, "__version__"])
