"""Wrong arguments of public functions: one sentence that names the argument, and no draw."""

from fractions import Fraction
from inspect import signature
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import stream_dp

PEOPLE = pa.table({"work": ["yes", "no"] * 20, "car": ["a", "b"] * 20})
LONG = pa.table({"id": [1, 1, 2, 2], "month": ["2026-01", "2026-02"] * 2, "work": ["y", "n"] * 2})
HOMES = pa.table({"home": [1, 2], "region": ["north", "south"]})
MEMBERS = pa.table({"home": [1, 1, 2], "work": ["yes", "no", "yes"]})
COUNTS = pa.table({"county": ["north", "south"], "size": [1, 5], "groups": [60, 10]})
STUDY = {
    "study": {
        "name": "work",
        "unit": "person",
        "neighbours": "replace_one",
        "rho": 1,
        "delta": "1/1000000",
        "population": {"size": 2},
        "periods": {"first": "2026-01", "every": "month", "count": 2},
    },
    "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
    "releases": [{"name": "now", "kind": "window", "attribute": "work", "width": 1, "rho": 1}],
}
WIDE = pa.table({"person": ["a"], "2026-01": ["yes"]})
study = stream_dp.parse_study(STUDY)
PUBLIC = stream_dp.run_study(study, WIDE, attribute="work", simulation_seed=1)
TENTH = Fraction(1, 10)
GOAL = stream_dp.Goal([("now", "pattern yes")], 0.1, 1.96)

ZEROS = np.zeros((3, 2), int)

NUMBERS = (-1, 0, "bogus", float("nan"), float("inf"), True, [], None)
# Without None, which stands for an argument that is not given.
RHO = (*NUMBERS[:-1], "1e999", "1/0")
EXACT = (-1, "bogus", float("nan"), "1/0", None, True)
WORDS = ("bogus", "", -1, None, [])
TABLES = (None, "people.csv", 7, {"work": ["yes"]})
WHOLE = (-1, 0, 1.5, "bogus", None, True)
MAPS = ("bogus", 3, {"work": "yes"}, {"work": []}, {"work": 3}, {"car": [None]}, {})
SEEDS = (-1, 1.5, "bogus", True)
STUDIES = (None, STUDY, "study.toml")

# By public function: sound arguments, and wrong values for some of them.
CALLS = {
    "fit": (
        {
            "table": PEOPLE,
            "neighbours": "add_remove",
            "delta": 1e-9,
            "rho": 1,
            "values": {"work": ["yes", "no"], "car": ["a", "b"]},
        },
        {
            "table": TABLES,
            "neighbours": WORDS,
            "delta": (*RHO, 1, 2),
            "rho": RHO,
            "epsilon": RHO,
            "values": MAPS,
            "domain_from": TABLES[1:],
            "bins": ("bogus", {"car": [1]}, {"nobody": [1]}),
            "kind": ("bogus", "window", 3),
            "unit": ("", 3),
            "simulation_seed": SEEDS,
        },
    ),
    "window": (
        {
            "table": LONG,
            "person": "id",
            "period": "month",
            "first": "2026-01",
            "count": 2,
            "width": 1,
            "neighbours": "replace_one",
            "delta": 1e-9,
            "rho": 1,
            "values": {"work": ["y", "n"]},
        },
        {
            "table": TABLES,
            "person": ("bogus", None),
            "period": ("bogus", None),
            "first": ("bogus", None, "2026-13", 1.5),
            "count": (*WHOLE, 10**9),
            "width": (*WHOLE, 3),
            "neighbours": WORDS,
            "delta": RHO,
            "rho": RHO,
            "values": (*MAPS[:4], {"work": range(1000)}, {"work": ["y", "y"]}),
            "missing": ("bogus", {"work": "bogus"}, {"nobody": "y"}),
            "rows": (-1, "bogus", 5),
            "simulation_seed": SEEDS,
        },
    ),
    "cumulative": (
        {"table": ZEROS, "neighbours": "replace_one", "delta": 1e-9, "rho": 1},
        {
            "table": (*TABLES, np.zeros(3), np.zeros((3, 0)), np.zeros((3, 2)) + 0.5),
            "event": ("bogus", 7, []),
            "count": (*WHOLE[:2], 7),
            "person": ("bogus",),
            "domain_from": (LONG,),
            "missing": ("bogus", 7),
        },
    ),
    "joint": (
        {"table": ZEROS, "width": 2, "neighbours": "replace_one", "delta": 1e-9, "rho": 1},
        {"table": TABLES, "event": ("bogus", 7, []), "width": (*WHOLE, 3), "rho": RHO},
    ),
    "fit_tables": (
        {
            "groups": HOMES,
            "people": MEMBERS,
            "key": "home",
            "group_values": {"region": ["north", "south"]},
            "person_values": {"work": ["yes", "no"]},
            "most": 2,
            "rho": 1,
            "kind": "independent",
        },
        {
            "groups": TABLES,
            "people": TABLES,
            "key": ("bogus", None),
            "group_values": ("bogus", None, {"region": "north"}, {"region": []}),
            "person_values": ("bogus", None, {"work": 3}, {}),
            "most": WHOLE,
            "rho": RHO,
            "kind": ("bogus", 7),
            "epsilon": RHO,
            "rounds": WHOLE,
            "simulation_seed": SEEDS,
        },
    ),
    "fit_sizes": (
        {
            "counts": COUNTS,
            "regions": ["county"],
            "neighbours": "add_remove",
            "largest": 9,
            "rho": 1,
        },
        {
            "counts": TABLES,
            "regions": ("bogus", None, [], ["bogus"], [3]),
            "neighbours": (*WORDS, "replace_in_place"),
            "largest": WHOLE,
            "rho": RHO,
            "epsilon": RHO,
            "methods": ("bogus", ["bogus"], 3),
            "parts": ([0], [-1], ["bogus"], 3),
            "simulation_seed": SEEDS,
        },
    ),
    "run_study": (
        {"study": study, "reports": WIDE, "attribute": "work"},
        {
            "study": STUDIES,
            "reports": TABLES,
            "attribute": ("bogus", 3),
            "groups": (HOMES,),
            "members": (MEMBERS,),
            "places": (HOMES,),
            "simulation_seed": SEEDS,
        },
    ),
    "parse_study": ({"raw": STUDY}, {"raw": (None, 3, [], "bogus", {}, {"study": 3})}),
    "load_study": ({"path": None}, {"path": (Path("bogus.toml"), "bogus.toml")}),
    "load_synthesizer": ({"kind": "mwem"}, {"kind": (*WORDS, "window")}),
    "plan_study": ({"study": study}, {"study": STUDIES}),
    "study_over": ({"study": study, "count": 3}, {"study": STUDIES, "count": WHOLE}),
    "mechanism": (
        {"study": study, "release": study.releases[0]},
        {"study": STUDIES, "release": (None, "now")},
    ),
    "expected_errors": (
        {"study": study, "name": "now", "query": "pattern yes"},
        {
            "study": STUDIES,
            "name": WORDS,
            "query": ("bogus", "", 3, None, "pattern maybe"),
            "people": (-1, 0, "bogus", 1.5),
        },
    ),
    "needed_budget": ({"study": study, "goal": GOAL}, {"study": STUDIES}),
    "alternatives": (
        {"study": study, "name": "now", "query": "pattern yes", "goal": GOAL, "reach": False},
        {"study": STUDIES, "name": WORDS, "query": ("bogus", "", 3, None)},
    ),
    "Goal": (
        {"queries": [("now", "pattern yes")], "error": 0.1, "quantile": 1.96},
        {"error": NUMBERS, "quantile": NUMBERS, "people": (-1, 0, "bogus", 1.5)},
    ),
    "gaussian_rho": (
        {"sensitivity2": 1, "variance": Fraction(1)},
        {"sensitivity2": EXACT, "variance": (*EXACT, 0)},
    ),
    "epsilon": (
        {"rho": TENTH, "delta": TENTH},
        {"rho": EXACT, "delta": (*EXACT, Fraction(0), Fraction(1), 2)},
    ),
    "SeededNoise": ({"seed": 1}, {"seed": (*SEEDS, None)}),
    "FixedWindow": (
        {
            "values": ("no", "yes"),
            "width": 1,
            "horizon": 2,
            "rho": TENTH,
            "neighbours": "add_remove",
        },
        {
            "values": ((), ("no",), ("no", "no")),
            "width": (*WHOLE, 3),
            "horizon": WHOLE,
            "rho": (*EXACT, 0),
            "neighbours": WORDS,
            "strategy": WORDS,
            "rows": (-1, "bogus", 1.5),
            "failure": (*EXACT, 0, 1),
        },
    ),
    "Cumulative": (
        {"horizon": 2, "rho": TENTH, "neighbours": "add_remove", "rows": 10},
        {
            "horizon": WHOLE,
            "rho": (*EXACT, 0),
            "neighbours": WORDS,
            "rows": (-1, "bogus", 1.5),
            "failure": (*EXACT, 0, 1),
            "size_share": (-1, 1, "bogus", None),
            "counter": ("bogus", "", -1),
        },
    ),
    "Column": (
        {"name": "work", "values": ("yes", "no")},
        {"values": ((), ("yes", "yes"), ("",)), "missing": ("bogus", 3)},
    ),
    "Domain": (
        {"group": (), "person": (stream_dp.Column("work", ("yes", "no")),), "most": 2},
        {"most": (0, -1), "person": ((),)},
    ),
    "Panel": (
        {"symbols": np.zeros((2, 1), np.uint8), "periods": ("1",), "values": ("no", "yes")},
        {
            "symbols": (np.zeros((2, 2), np.uint8), np.zeros(2, np.uint8), None, [[0]]),
            "periods": ((), ("1", "2")),
        },
    ),
    "window_codes": (
        {"symbols": np.zeros((2, 1), np.uint8), "q": 2},
        {"symbols": (None, np.zeros(2, np.uint8), [[0]]), "q": WHOLE},
    ),
    "open": (
        {"address": "sqlite:bogus.db"},
        {"address": ("bogus", "", None, 3, "sqlite:no-such-file.db", "kafka://")},
    ),
    "open_log": (
        {"url": "sqlite:bogus.db", "base": Path()},
        {"url": ("bogus", "", None, 3, "kafka://", "sqlite:")},
    ),
    "from_tables": (
        {
            "domain": stream_dp.Domain((), (stream_dp.Column("work", ("yes", "no")),), 2),
            "groups": HOMES,
            "people": MEMBERS,
            "key_group": "home",
            "key_person": "home",
        },
        {
            "groups": TABLES,
            "people": TABLES,
            "key_group": ("bogus", None),
            "key_person": ("bogus", None),
            "size": ("bogus",),
        },
    ),
}
# Results and parts of results, which only the package makes; types; and errors.
RESULTS = {
    *("Alternative", "Answer", "BatchCertificate", "BatchRelease", "Counter", "DataSet"),
    *("ExpectedError", "FitContext", "FittedPanel", "FittedSizes", "FittedTable"),
    *("FittedTables", "Hierarchy"),
    *("Inconsistent", "Joint", "JointAnswers", "LogError", "Mechanism", "MemoryLog"),
    *("MemoryTranscript", "NeededBudget", "PanelCertificate", "Plan", "PublicLog"),
    *("PublishedRelease", "PublishedSizes", "Regression", "ReleaseQuery", "SizesCertificate"),
    *("Step", "Study", "SystemNoise", "UserError", "to_tables"),
}
WRONG = [
    (name, argument, value)
    for name, (_, arguments) in CALLS.items()
    for argument, values in arguments.items()
    for value in values
]


def is_one_sentence(error):
    """Whether the error has a sentence; a declaration has a line for each fault."""
    lines = str(error).split("\n")
    return all(0 < len(line) < 400 for line in lines)


def test_every_public_name_is_called_or_is_a_result():
    assert CALLS.keys() | RESULTS == {*stream_dp.__all__}
    assert not CALLS.keys() & RESULTS


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_those_of_the_signature(name):
    sound, wrong = CALLS[name]
    assert {*sound, *wrong} <= {*signature(getattr(stream_dp, name)).parameters}


@pytest.mark.parametrize(("name", "argument", "value"), WRONG, ids=lambda v: str(v)[:30])
def test_a_wrong_argument_is_one_sentence(name, argument, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = CALLS[name][0] | {argument: value}
    if argument == "epsilon":
        arguments.pop("rho", None)  # one of the two
    with pytest.raises((ValueError, stream_dp.UserError, stream_dp.LogError)) as caught:
        getattr(stream_dp, name)(**arguments)
    assert is_one_sentence(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("name", "query", "period"),
    [
        ("bogus", "pattern yes", None),
        ("now", "bogus", None),
        ("now", "", None),
        ("now", None, None),
        ("now", "pattern yes", "2099-01"),
        (None, "pattern yes", None),
        ("now", "pattern yes", 3),
    ],
)
def test_a_wrong_question_is_one_sentence(name, query, period):
    with pytest.raises((ValueError, stream_dp.UserError)) as caught:
        PUBLIC.answer(name, query, period)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("wrong", [{"strategy": "bogus"}, {"strategy": 3}])
def test_the_best_of_bogus_is_refused(wrong):
    window = stream_dp.FixedWindow(**CALLS["FixedWindow"][0])
    with pytest.raises(ValueError, match="strategy: must be one of"):
        window.best(**wrong)
