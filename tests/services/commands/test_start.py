"""How the command starts and how it ends: what it imports, and errors for machines."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from stream_dp.services.commands import cli

PROGRAM = [sys.executable, "-P", "-m", "stream_dp.services.commands.cli"]
HEAVY = {"numpy", "scipy", "pyarrow", "opendp", "pydantic", "msgspec", "fsspec"}


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_what_needs_no_command_imports_none(word: str) -> None:
    code = f"""
import sys
from stream_dp.services.commands import cli
try:
    cli.main([{word!r}])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert {n for n in loaded if n.startswith("stream_dp.services.")} == {
        "stream_dp.services.commands",
        "stream_dp.services.commands.cli",
        "stream_dp.services.process",
        "stream_dp.services.process.command_output",
    }
    assert not HEAVY & loaded


@pytest.mark.parametrize(("word", "threads"), [("releases", "1"), ("worker", None)])
def test_linear_algebra_has_one_thread_except_in_fits(word: str, threads: str | None) -> None:
    code = f"""
import os, sys
from stream_dp.services.commands import cli
sys.argv = ["stream-dp", {word!r}, "nowhere.toml"]
cli.main()
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{threads}\n"


def test_every_command_is_there() -> None:
    (commands,) = (
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert commands.choices.keys() == cli.COMMANDS.keys()
    for name, parser in commands.choices.items():
        module = import_module(cli.command_module(name))
        assert parser.get_default("command") is module.run, name


def refusal(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    report: dict[str, object] = json.loads(error)
    assert list(report) == ["error", "lines", "code"]
    return report


def test_errors_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.toml"
    assert cli.main(["status", "--json", str(study)]) == 2
    line = f"{study}: no such file; 'stream-dp new {study}' writes one"
    assert refusal(capsys) == {"error": "bad input", "lines": [line], "code": 2}
    study.write_text("[study]\nname = 3\n")
    assert cli.main(["check", str(study), "--json"]) == 2
    assert len(refusal(capsys)["lines"]) > 1  # type: ignore[arg-type]


def test_words_that_are_not_understood_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["statu", "--json"], ["status", "--json"], ["run", "x.toml", "--json", "--fast"]):
        assert cli.main(words) == 2
        assert "--help" in str(refusal(capsys)["lines"])


def test_a_contradiction_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "public.db").write_bytes(bytes(10_000))
    assert cli.main(["releases", "--json", f"sqlite:{tmp_path / 'public.db'}"]) == 4
    report = refusal(capsys)
    assert (report["error"], report["code"]) == ("inconsistent", 4)


def test_help_tells_the_form_of_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    output = capsys.readouterr().out
    shown = next(line for line in output.splitlines() if line.startswith('{"error"'))
    assert list(json.loads(shown)) == ["error", "lines", "code"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there")
def test_an_output_without_room(tmp_path: Path) -> None:
    """The code says it, and the interpreter adds no words and no code of its own."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "new", str(tmp_path / "a.toml")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 5
        assert done.stderr == "stream-dp: standard output: No space left on device\n"
        silent = subprocess.run([*PROGRAM, "check", os.devnull], stdout=full, stderr=full)
        assert silent.returncode == 2
