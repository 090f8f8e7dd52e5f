"""The example that recomputes every cost by definition, without stream-dp, finds the charges."""

import ast
import json
import runpy
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from kit.kinds_of_releases import public_log_of, published, study_of

import stream_dp
from stream_dp.batch.people.people_plan import all_pairs_plan
from stream_dp.batch.people.people_table import study_people
from stream_dp.batch.people.projections import linear_residuals
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.planning import panel_errors
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.study.families import PANEL_FAMILIES, Kind

EXAMPLES = Path(__file__).parents[2] / "examples"
WEIGHTS = EXAMPLES / "write_total_weights.py"
SCRIPTS = [EXAMPLES / "recompute_costs.py", EXAMPLES / "recompute_table_costs.py"]
PANELS = [
    {"name": "window", "kind": "window", "attribute": "work", "width": 2, "share": "1/5"},
    {"name": "totals", "kind": "cumulative", "attribute": "work", "event": ["no"], "share": "1/5"},
    {
        **{"name": "joint", "kind": "joint", "attribute": "work", "width": 2, "event": ["no"]},
        "share": "1/5",
    },
]
HISTOGRAM = {**PANELS[0], "name": "histogram", "strategy": "histogram"}
TABLE = {"name": "table", "kind": "table", "attributes": ["work", "sex", "city"], "share": "1/5"}
TABLE |= {"every": 5}
TABLES = (Kind.TABLE, Kind.MATCH, Kind.RAP, Kind.MIXTURE, Kind.INDEPENDENT)
EXACT = (Kind.TABLE, Kind.MATCH, Kind.INDEPENDENT)
MONTHS = [f"2026-0{month}" for month in range(1, 6)]
POPULATIONS = {
    "replace_one": {"population": {"size": 200}},
    "late": {"neighbours": "add_remove"},
    "closed": {"neighbours": "add_remove", "population": {"closed": True}},
}


@pytest.fixture(autouse=True)
def no_simulated_errors(monkeypatch):
    """The errors of panels are not what these studies are for."""
    monkeypatch.setattr(panel_errors, "simulated_errors", lambda *study, **work: ())


@pytest.fixture(scope="module")
def recompute():
    """The function of the script, without the folder of examples on the path of other tests."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import recompute_costs
    finally:
        sys.path.remove(str(EXAMPLES))
    return recompute_costs.recompute


def printed(recompute, capsys, folder, study, log):
    """By release, what the script prints of a study whose public log is given."""
    check = summary(plan_study(stream_dp.parse_study(study))).as_dict()
    public = None if log is None else stream_dp.PublicLog(log)
    for release in check["releases"]:
        name, kind = release["name"], Kind(release["kind"])
        if public is None:
            continue
        is_panel = kind.family in PANEL_FAMILIES
        table = public.measurements(name) if is_panel else public.data_set(name).measurements
        (folder / name).mkdir()
        pa.csv.write_csv(table, folder / name / "measurements.csv")
    if public is not None:
        runpy.run_path(str(WEIGHTS))["write"](stream_dp.parse_study(study), folder)
    recompute(study, json.loads(json.dumps(check)), folder)
    text = capsys.readouterr().out.replace("\n  ", "; ")
    return dict(line.split(": ", 1) for line in text.splitlines())


def declared(study, **attributes):
    """A study of five months with three columns."""
    columns = {
        "work": {"values": ["yes", "no"], "missing": "yes"},
        "sex": {"values": ["f", "m"], "missing": "f"},
        "city": {"values": [*"abcdef"], "missing": "a"},
    }
    periods = {"first": MONTHS[0], "every": "month", "count": len(MONTHS)}
    return {
        "study": {
            **{"name": "costs", "unit": "person", "neighbours": "replace_one", "rho": 5},
            **{"delta": "1/1000000", "periods": periods, **study},
        },
        "attributes": columns | attributes,
    }


def run(study):
    """The public log of a study of 200 simulated people."""
    rng, rows = np.random.default_rng(1), 200 * len(MONTHS)
    values = {
        name: rng.choice(column["values"], rows).tolist()
        for name, column in study["attributes"].items()
    }
    values["city"] = rng.choice([*"abcdef"], rows, p=[0.45, 0.45, 0.04, 0.03, 0.02, 0.01]).tolist()
    people = {"person": [str(i // len(MONTHS)) for i in range(rows)], "period": MONTHS * 200}
    return public_log_of(stream_dp.parse_study(study), pa.table(people | values))


def test_it_imports_numpy_and_the_standard_library_alone():
    allowed = {*sys.stdlib_module_names, "numpy", "recompute_table_costs"}
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        assert len(text.splitlines()) <= 200
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed


@pytest.mark.parametrize("symbols", [["yes", "no"], ["yes", "no", "ill"]], ids=len)
@pytest.mark.parametrize("population", POPULATIONS)
def test_panels_and_tables_cost_their_charges(recompute, tmp_path, capsys, population, symbols):
    study = declared(POPULATIONS[population], work={"values": symbols, "missing": "yes"})
    study["releases"] = [dict(release) for release in [*PANELS, HISTOGRAM, TABLE]]
    if population != "replace_one":
        study["releases"] = [r for r in study["releases"] if r["kind"] != "joint"]
        study["releases"][1]["size_share"] = 0.1
    lines = printed(recompute, capsys, tmp_path, study, run(study))
    assert {*lines} == {release["name"] for release in study["releases"]}
    for line in lines.values():
        assert "is equal to the charge 1 up to 2026-05; tried: " in line, lines


def test_panels_of_an_open_population_cost_their_charges(recompute, tmp_path, capsys):
    study = declared({"neighbours": "add_remove"}, work={"values": ["a", "b"], "missing": "absent"})
    study["releases"] = [{**r, "rows": 300, "share": "1/4"} for r in [*PANELS, HISTOGRAM]]
    study["releases"] = [{**r, "event": ["b"]} if "event" in r else r for r in study["releases"]]
    lines = printed(recompute, capsys, tmp_path, study, run(study))
    for line in lines.values():
        assert "is equal to the charge 5/4 up to 2026-05; tried: " in line, lines


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_sums_of_numbers_cost_their_charge(recompute, tmp_path, capsys, relation):
    """Measured as the plan says: all at once, so that noisy answers decide nothing."""
    number = {"number": {"least": 0, "most": 5}, "bins": [1, 2, 3, 4, 5], "missing": 0}
    study = declared({"neighbours": relation, "population": {"size": 200}}, age=number)
    if relation == "add_remove":
        del study["study"]["population"]
    study["releases"] = [
        {"name": "answers", "kind": "rap", "attributes": ["age", "sex"], "share": 1, "every": 5}
        | {"linear": [{"random": 2, "seed": 5}]}
    ]
    parsed = stream_dp.parse_study(study)
    (release,) = parsed.batches
    residuals = linear_residuals(study_people(parsed, release), release)
    plan, noisy, rows, number = all_pairs_plan(residuals, release), NoisyAnswers.none(), [], 0
    while (phase := plan.phase(number, noisy)) is not None:
        variances = phase.variances(residuals)
        for i in phase.candidates:
            texts = residuals.texts(residuals.rows([i]))
            rows += [{"query": text, "variance": str(variances[i])} for text in texts]
        exact = np.full(len(residuals.rows(phase.candidates)), 10**6)
        noisy = noisy.joined(residuals, phase.candidates, exact, variances)
        number += 1
    (tmp_path / "answers").mkdir()
    pa.csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "answers" / "measurements.csv")
    recompute(study, summary(plan_study(parsed)).as_dict(), tmp_path)
    assert " is equal to the charge 5 " in capsys.readouterr().out


def test_the_study_of_the_sipp_costs_its_charge(recompute, tmp_path, capsys):
    study = tomllib.loads((EXAMPLES / "sipp" / "sipp.toml").read_text("utf-8"))
    del study["run"]
    months = stream_dp.parse_study(study).periods.labels
    poor = np.random.default_rng(1).random((200, len(months))) < 0.1
    table = {month: poor[:, i].astype(int) for i, month in enumerate(months)}
    people = pa.table({"person": [str(i) for i in range(200)], **table})
    log = public_log_of(stream_dp.parse_study(study), people, attribute="poverty")
    line = printed(recompute, capsys, tmp_path, study, log)["quarters"]
    assert line == (
        "0.01 is equal to the charge 1/100 up to 2020-12; tried: 3^12 histories, each alone"
    )


def test_a_cost_above_its_charge_is_found(tmp_path, recompute, capsys):
    """Noise of half the stated variance would cost twice the charge."""
    study = study_of(Kind.WINDOW)
    printed(recompute, capsys, tmp_path, study, published(Kind.WINDOW))
    file, check = tmp_path / "answers" / "measurements.csv", tmp_path / "check.json"
    stated = summary(plan_study(stream_dp.parse_study(study))).as_dict()
    check.write_text(json.dumps(stated), "utf-8")
    table = pa.csv.read_csv(
        file, convert_options=pa.csv.ConvertOptions(column_types={"variance": pa.string()})
    )
    halves = [str(Fraction(variance) / 2) for variance in table["variance"].to_pylist()]
    pa.csv.write_csv(table.set_column(3, "variance", pa.array(halves)), file)
    assert recompute(study, json.loads(check.read_text("utf-8")), tmp_path) == 2
    assert "40 is 2.000000000 of the charge 20" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [*Kind], ids=str)
def test_every_kind_costs_its_charge_or_is_named(recompute, tmp_path, capsys, kind):
    exported = kind.family in PANEL_FAMILIES or kind in TABLES
    log = published(kind) if exported else None
    line = printed(recompute, capsys, tmp_path, study_of(kind), log)["answers"]
    if kind.family in PANEL_FAMILIES or kind in EXACT:
        assert " is equal to the charge " in line
    elif kind in (Kind.RAP, Kind.MIXTURE):  # the rest of the charge pays for a selection
        assert 0.8 < float(line.split(" of the charge")[0].split()[-1]) < 1, line
    else:
        assert line.startswith("not recomputed: ")


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("largest", [1, 4])
@pytest.mark.parametrize("methods", ["sorted naive", "cumulative sorted", "naive cumulative"])
def test_sizes_cost_their_charge(recompute, tmp_path, capsys, relation, largest, methods):
    study = study_of(Kind.SIZES)
    study["study"] |= {"neighbours": relation, "rho": "1/10"}
    if relation == "add_remove":
        del study["study"]["population"]
    release = {"largest": largest, "methods": [[m] for m in methods.split()], "rho": "1/10"}
    study["releases"][0] |= release
    line = printed(recompute, capsys, tmp_path, study, None)["answers"]
    assert " of the charge 1/10 " in line
    share = float(line.split(" of the charge")[0].split()[-1])
    assert share == pytest.approx(1, abs=1e-6), line


@pytest.mark.parametrize("name", ["pums/pums.toml", "own_mechanism/homes.toml"])
def test_a_study_of_the_examples_that_is_not_recomputed_is_named(recompute, tmp_path, capsys, name):
    study = tomllib.loads((EXAMPLES / name).read_text("utf-8"))
    stated = [{"name": r["name"], "kind": r["kind"], "charges": {}} for r in study["releases"]]
    for release in stated:
        (tmp_path / release["name"]).mkdir()
        (tmp_path / release["name"] / "measurements.csv").write_text("query,variance\n", "utf-8")
    recompute(study, {"releases": stated, "data_sets": []}, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(stated)
    assert all(": not recomputed: " in line for line in lines)
