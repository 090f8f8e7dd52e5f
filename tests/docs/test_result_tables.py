"""The pages of results: a number comes from a measured table, and a table from a command."""

import ast
import csv
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import result_commands
import result_figures
import result_tables
import written_parts

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "docs/results").glob("*.md")}
TABLES = sorted(path.stem for path in result_tables.FOLDER.glob("*.json"))
MARKS = re.compile(r"<!-- written: table (.+?) -->|\(data/([a-z0-9-]+)\.json ")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_command_that_is_there_and_at_most_seven_columns(name):
    table = result_tables.read(name)
    assert len(table.columns) <= 6
    scripts = re.findall(r"(?:^|; )python ([^\s;]+)", table.command)
    assert scripts
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    assert table.markdown().count("\n|") == len(table.rows) + 1


def imported(path, seen):
    """The scripts that a script imports, with itself; without those that the extras install."""
    seen.add(path)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module, folder in product(filter(None, modules), (path.parent, ROOT / "benchmarks")):
            found = folder / f"{module}.py"
            if found.is_file() and found not in seen:
                imported(found, seen)
    return seen


# Their scripts import one that reads public data, and do not read them.
SIMULATED = {
    *(
        "aims",
        "answers-rules",
        "devices",
        "household-months",
        "households-relatives",
        "households-rules",
    ),
    *("people-columns", "people-dense", "people-many", "regressions-rules"),
}
ON_KAFKA = re.compile(r"running_broker|BROKER\b|distant_broker|\bCluster\b|\bPLACE\b|\bOTHERS\b")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_its_command_needs(name):
    table = result_tables.read(name)
    assert set(table.needs) <= result_commands.NEEDS.keys()
    assert ("--peers" in table.command) <= ("private-pgm" in table.needs)
    scripts = [ROOT / script for script in re.findall(r"(?:^|; )python ([^\s;]+)", table.command)]
    if scripts[0].name == "papers.py":
        commands = scripts[0].read_text("utf-8").partition(f'"{table.command.split()[-1]}": ')[2]
        scripts = [ROOT / "benchmarks" / re.findall(r'\("([\w/]+\.py)', commands)[0]]
    sources = [path.read_text("utf-8") for script in scripts for path in imported(script, set())]
    fetches = any(len(re.findall(r"(?<!def )\bdata_file\b", text)) > 1 for text in sources)
    assert ("public data" in table.needs) == (fetches and name not in SIMULATED)
    of_kafka = any(ON_KAFKA.search(script.read_text("utf-8")) for script in scripts)
    assert ("broker" in table.needs) == of_kafka


@pytest.mark.parametrize("name", TABLES)
def test_a_figure_is_drawn_from_its_table(name):
    table = result_tables.read(name)
    if table.figure:
        drawn = result_figures.drawing(name).svg
        assert drawn.count("<svg") == 1
        assert all(column.replace("`", "") in drawn for column in table.figure["columns"])


def test_every_table_is_on_a_page():
    cited = {a or b for page in PAGES.values() for a, b in MARKS.findall(page)}
    assert cited == set(TABLES)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_no_measured_number_is_typed(name):
    """Numbers with a decimal point come from a table; eps and shares of a rule may be typed."""
    text = re.sub(r"^<!-- written.*?^<!-- end -->", "", PAGES[name], flags=re.M | re.S)
    text = re.sub(r"\[[^\]]*\]\(data/[^)]*\)|`[^`]*`|\]\([^)]*\)|eps \.?\d+(?: to \d)?", "", text)
    assert re.findall(r"(?<![\w.])\d*\.\d+", text) == []


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"index.md", "tried.md", "limits.md"}))
def test_a_page_begins_with_its_answer_and_says_what_speaks_against_it(name):
    title, _, body = PAGES[name].partition("\n\n")
    assert title.startswith("# ")
    assert body.startswith("**")
    assert "\n## What speaks against us\n" in PAGES[name]


def test_the_page_of_attempts_counts_the_rows_of_each_area():
    with (result_tables.FOLDER / "tried.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    areas = Counter(area for area, *cells in rows if len(cells) == 4 and all(cells))
    page = PAGES["tried.md"]
    assert f" {len(rows)} attempts" in page
    counts = re.findall(r"^(\d+) attempts|, and (\d+) with", page, re.M)
    assert [int(first or second) for first, second in counts] == list(areas.values())


def test_every_claim_of_a_paper_has_an_outcome_of_the_legend():
    legend, *tables = re.split(
        r"^\| figure, table or claim .*\n.*\n", PAGES["papers.md"], flags=re.M
    )
    outcomes = set(re.findall(r"^\| (?!outcome)(\w[\w ]+) \|", legend, re.M))
    found = [row.split(" | ")[1] for table in tables for row in table.split("\n\n")[0].splitlines()]
    assert len(found) > 40
    assert set(found) == outcomes


def test_a_cell_that_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="no cell 'no such row: covered'"):
        written_parts.page('[1](data/coverage.json "no such row: covered")')


def test_a_benchmark_writes_rows_only_when_told(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location(
        "result_file", ROOT / "benchmarks" / "result_file.py"
    )
    result_file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(result_file)

    for path in result_tables.FOLDER.glob("*.json"):
        data = json.loads(path.read_text("utf-8"))
        assert result_file.text(data) == path.read_text("utf-8"), path.name
    file = tmp_path / "coverage.json"
    file.write_text((result_tables.FOLDER / file.name).read_text("utf-8"))
    monkeypatch.setattr(result_file, "FOLDER", tmp_path)
    before = file.read_text()
    result_file.record("coverage", "`add_remove`", 0.94444444, 0.01)
    assert file.read_text() == before
    monkeypatch.setenv("RECORD", "1")
    result_file.record("coverage", "`add_remove`", 0.94444444, 0.01)
    assert json.loads(file.read_text())["rows"]["`add_remove`"] == [0.9444, 0.01]
    with pytest.raises(ValueError, match="coverage: 1 cells for 2 columns"):
        result_file.record("coverage", "`add_remove`", 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["bun24", "kuo18"])
def test_the_short_form_of_a_paper_runs(paper):
    if not (ROOT.parent / "shared" / "data").is_dir():
        pytest.skip("needs ../shared/data")
    command = [sys.executable, str(ROOT / "benchmarks" / "papers.py"), "--short", paper]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{paper}: ")
