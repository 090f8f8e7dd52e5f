"""Every example and notebook runs as it is shipped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kit import fork_server
from kit.commands import json_output

from stream_dp.services.commands.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run(*arguments, folder):
    env = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_DP_")}
    env |= {"MPLBACKEND": "Agg", "PYTHONPATH": str(EXAMPLES)}
    done = fork_server.run(*arguments, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(name, *arguments, folder):
    return run(EXAMPLES / name, *arguments, folder=folder)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The folder and the public log of the example that runs a study."""
    folder = tmp_path_factory.mktemp("example")
    return folder, python("run_a_study.py", ".", folder=folder).splitlines()[-1]


def test_a_study_runs_and_its_public_log_is_read(released):
    folder, url = released
    printed = python("read_public_log.py", url, folder=folder)
    assert "patterns: 3 releases, every panel a prefix of the next" in printed
    assert "95% interval" in printed


def test_the_commands_that_recompute_costs_print_the_charge(released, tmp_path, capsys):
    """As the page has them, in a program of its own that does not find stream-dp."""
    study = released[0] / "work.toml"
    (tmp_path / "check.json").write_text(json.dumps(json_output(capsys, "check", study)), "utf-8")
    out = tmp_path / "out" / "patterns"
    out.parent.mkdir()
    assert main(["export", str(study), "patterns", str(out), "--format", "csv"]) == 0
    script = EXAMPLES / "recompute_costs.py"
    command = [sys.executable, "-S", str(script), str(study), "check.json", "out"]
    env = {"PYTHONPATH": str(Path(np.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("patterns: 0.05 is equal to the charge 1/20 up to 2026-04"), done


@pytest.mark.parametrize(
    "name", ["mechanism_on_an_array.py", "households.py", "study_in_a_script.py"]
)
def test_a_script_of_its_own_runs(name, tmp_path):
    assert python(name, folder=tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs_and_runs(path, tmp_path):
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    run("-c", "\n".join("".join(c["source"]) for c in code), folder=tmp_path)


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    files = {p.name for p in EXAMPLES.iterdir() if p.is_file()} - {"README.md"}
    assert [name for name in files if f"`{name}" not in listed] == []
