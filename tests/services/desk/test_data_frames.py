"""Data frames as people have them: each is read right, or refused in one line with the remedy."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

import stream_dp

pandas = pytest.importorskip("pandas", "2.2")
N = 40
FRAME = pandas.DataFrame({"work": ["y", "n"] * (N // 2), "car": ["a", "b"] * (N // 2)})
VALUES = {"work": ["y", "n"], "car": ["a", "b"]}
LONG = pandas.DataFrame(
    {"id": [1, 1, 2, 2], "m": ["2026-01", "2026-02"] * 2, "work": ["y", "n"] * 2}
)


def fit(frame, values=VALUES, **arguments):
    private = {"neighbours": "add_remove", "delta": 1e-9, "rho": 1000, "simulation_seed": 1}
    return stream_dp.fit(frame, values=values, **private, **arguments)


def window(frame, **arguments):
    given = {
        **{"person": "id", "period": "m", "first": "2026-01", "count": 2, "width": 1},
        **{"neighbours": "replace_one", "delta": 1e-9, "rho": 1000, "simulation_seed": 1},
        **{"values": {"work": ["y", "n"]}},
    }
    return stream_dp.window(frame, **given | arguments)


def with_work(cells, values):
    return FRAME.assign(work=cells), {**VALUES, "work": values}


HALF = N // 2
RIGHT = {
    "whole numbers as names": (FRAME.set_axis([0, 1], axis=1), {0: ["y", "n"], 1: ["a", "b"]}),
    "their texts": (FRAME.set_axis([0, 1], axis=1), {"0": ["y", "n"], "1": ["a", "b"]}),
    "numbers of numpy": with_work(np.arange(N) % 2, [np.int64(0), np.int64(1)]),
    "an array of values": with_work(np.arange(N) % 2, np.arange(2)),
    "values of a series": with_work(FRAME.work, FRAME.work.drop_duplicates()),
    "values of an index": with_work(FRAME.work, FRAME.work.astype("category").cat.categories),
    "NaN among values": with_work([1.0, np.nan] * HALF, [1, np.nan]),
    "NA among values": with_work(pandas.array([1, None] * HALF, dtype="Int64"), [1, pandas.NA]),
    "nullable integers": with_work(pandas.array([1, 0] * HALF, dtype="Int64"), [0, 1]),
    "nullable booleans": with_work(
        pandas.array([True, False] * HALF, dtype="boolean"), [True, False]
    ),
    "categories": with_work(FRAME.work.astype("category"), ["y", "n"]),
    "categories of numbers": with_work(pandas.Categorical([1, 2] * HALF), [1, 2]),
    "decimals": with_work([decimal.Decimal(f"{i % 2}.00") for i in range(N)], [0, 1]),
    "objects with None": with_work(pandas.Series([True, None] * HALF, dtype=object), [True, None]),
    "a falling range": with_work(np.arange(N) % 2, range(1, -1, -1)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_usual_frame_is_read_right(name, recwarn):
    frame, values = RIGHT[name]
    sample = fit(frame, values).sample()
    names = [int(n) if str(n).isdigit() else n for n in values]
    assert [*sample.columns] == names
    assert abs(len(sample) - N) <= 1
    counts = sample[names[0]].value_counts(dropna=False)
    assert sorted(counts.tolist()) == pytest.approx([HALF, HALF], abs=1)
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


WRONG = {
    "names of two levels": (
        FRAME.set_axis(pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y")]), axis=1),
        {("a", "x"): ["y", "n"], ("a", "y"): ["a", "b"]},
        r"values: \('a', 'x'\) is no name of a column; names are text: rename the column",
    ),
    "a name with a blank": (
        FRAME.rename(columns={"work": "my work"}),
        {"my work": ["y", "n"], "car": ["a", "b"]},
        r"values: 'my work' is no name .* \.rename\(columns=\{'my work': 'my_work'\}\)",
    ),
    "no name": (
        FRAME.set_axis(["", "car"], axis=1),
        {"": ["y", "n"], "car": ["a", "b"]},
        "values: '' is no name of a column here: ",
    ),
    "two columns of a name": (
        FRAME.set_axis(["car", "car"], axis=1),
        VALUES,
        "table: more than one column 'car'; rename one",
    ),
    "several types": (
        *with_work(pandas.Series([1, "1"] * HALF, dtype=object), [1]),
        r"table: column 'work' holds values of several types \(int, str\); write it as text",
    ),
    "dicts": (FRAME.assign(z=[{1: 2}] * N), VALUES, "table: column 'z' holds object; write it"),
    "lists": (*with_work([[1]] * N, [1, 2]), "column 'work': holds neither .* list<.*; write it a"),
    "complex numbers": (*with_work(np.ones(N) * 1j, [1, 2]), "table: column 'work' holds complex"),
    "sparse cells": (
        *with_work(pandas.arrays.SparseArray([0, 1] * HALF), [0, 1]),
        "table: column 'work' holds Sparse",
    ),
    "intervals": (
        *with_work(pandas.cut(np.arange(N), [-1, 9, N]), ["a", "b"]),
        "column 'work': holds neither text nor numbers, but .*; write it as text",
    ),
    "no rows nor columns": (pandas.DataFrame(), VALUES, "table: no column 'work'"),
    "one column": (FRAME, {"work": ["y", "n"]}, "values: declare at least two columns"),
    "a set of values": (FRAME, {**VALUES, "work": {"y", "n"}}, "values: 'work' needs a list"),
    "several ranges": (FRAME, {**VALUES, "work": [range(2), range(5)]}, "values: 'work' has sev"),
    "words beside a range": (
        *with_work(np.arange(N), ["refused", range(100)]),
        "values: beside its range 'work' may have whole numbers as codes",
    ),
    "a long answer": (
        *with_work(["y" * 70, "n"] * HALF, ["y" * 70, "n"]),
        r"values: 'y{20}\.\.\.' of 'work' has 70 characters, at most 64",
    ),
    "a sign": (*with_work(["a|b", "n"] * HALF, ["a|b", "n"]), "values: 'a.b' of 'work' has '.' in"),
    "a line": (*with_work(["a\nb", "n"] * HALF, ["a\nb", "n"]), "values: 'a.nb' of 'work' has "),
    "a formula": (*with_work(["+x", "n"] * HALF, ["+x", "n"]), r"values: '\+x' of 'work' begins"),
    "absent": (
        *with_work(["absent", "n"] * HALF, ["absent", "n"]),
        "values: 'absent' of 'work' st",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_any_other_frame_is_one_line(name):
    frame, values, line = WRONG[name]
    with pytest.raises(stream_dp.UserError, match=f"^{line}") as caught:
        fit(frame, values)
    assert all(len(said) < 300 for said in caught.value.lines)


def test_codes_of_a_call_are_whole_numbers_of_its_columns():
    frame, values = with_work(np.arange(N), range(100))
    for special, line in (
        ({"work": ["x"]}, "special: 'work' needs a list of whole numbers"),
        ({"work": -9}, "special: 'work' needs a list of whole numbers"),
        ({"other": [-9]}, "special: 'other' is none of the columns in values"),
        ({"work": [5]}, r"special\['work'\]: 5 is a number of the scale, too"),
        ("work", "special: must be a dict"),
    ):
        with pytest.raises(stream_dp.UserError, match=f"^{line}"):
            fit(frame, values, special=special)


def test_a_panel_takes_whole_numbers_as_names(recwarn):
    frame = LONG.set_axis([0, 1, 2], axis=1)
    public = window(frame, person=0, period=1, values={2: ["y", "n"]})
    assert public.panel.table() == window(LONG).panel.table()
    mixed = window(LONG.set_axis([0, 1, "work"], axis=1), person=0, period=1)
    assert mixed.panel.table() == window(LONG).panel.table()
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_codes_of_a_panel_count_as_no_answer():
    frame = LONG.assign(work=[1, -9, 0, -8])
    public = window(frame, values={"work": [0, 1]}, special={"work": [-9, -8]}, missing="absent")
    panel = public.panel.table()
    assert sorted(panel["2026-01"].to_pylist()) == ["0", "1"]
    assert panel["2026-02"].to_pylist() == ["absent", "absent"]
    with pytest.raises(stream_dp.UserError, match=r"^special\['work'\]: 1 is an answer, too"):
        window(frame, values={"work": [0, 1]}, special={"work": [1]})
    with pytest.raises(stream_dp.UserError, match=r"^special: 'car' is none of the columns"):
        window(frame, values={"work": [0, 1]}, special={"car": [1]})


def test_ids_of_several_types_are_one_line():
    mixed = LONG.assign(id=pandas.Series([1, "1", 2, "2"], dtype=object))
    with pytest.raises(stream_dp.UserError, match=r"^table: column 'id' holds values of several"):
        window(mixed)


def test_people_beyond_the_declared_size_are_a_warning():
    study = stream_dp.parse_study(
        {
            "study": {
                **{"name": "work", "unit": "person", "neighbours": "replace_one"},
                **{"rho": 1, "delta": "1/1000000", "population": {"size": 2}},
                "periods": {"first": 1, "every": "step", "count": 1},
            },
            "attributes": {"work": {"values": ["y", "n"], "missing": "absent"}},
            "releases": [
                {"name": "work", "kind": "window", "attribute": "work", "width": 1, "rho": 1}
            ],
        }
    )
    reports = pa.table({"person": [1, 2, 3, 4], "period": [1] * 4, "work": ["y", "n"] * 2})
    with pytest.warns(UserWarning, match="run_study: rejected:\n.*2"):
        stream_dp.run_study(study, reports, simulation_seed=1)
