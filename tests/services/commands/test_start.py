"""How the command starts and how it ends: what it imports, and errors for machines."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from stream_dp.services.commands import cli

PROGRAM = [sys.executable, "-P", "-m", "stream_dp.services.commands.cli"]
MODULE = [sys.executable, "-P", "-m", "stream_dp"]
HEAVY = {"numpy", "scipy", "pyarrow", "opendp", "pydantic", "msgspec", "fsspec"}


@pytest.mark.parametrize("words", [[], ["--version"], ["--help"], ["send", "--help"]])
def test_what_runs_no_command_imports_none(words: list[str]) -> None:
    code = f"""
import sys
from stream_dp.services.commands import cli
try:
    sys.exit(cli.main({words!r}))
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert {n for n in loaded if n.startswith("stream_dp.services.")} == {
        f"stream_dp.services.{name}"
        for name in (
            *("commands", "commands.cli", "commands.study_commands"),
            *("commands.operate_commands", "intake", "intake.options"),
            *("process", "process.command_output"),
        )
    }
    assert not HEAVY & loaded


@pytest.mark.parametrize("word", ["releases", "worker"])
def test_linear_algebra_has_one_thread(word: str) -> None:
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
    assert done.stdout == "1\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_module_and_an_example_that_is_understood(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(cli.command_module(name))
    assert callable(getattr(module, cli.COMMANDS[name].function))
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    example = capsys.readouterr().out.partition("\nexample:\n")[2].strip()
    program, *words = shlex.split(example)
    assert program == "stream-dp"
    assert cli._parser().parse_args(words).command == name


def test_the_first_commands_and_all_others_by_their_tasks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") <= 20
    assert [line.split()[0] for line in shown.splitlines() if line[:2] == "  "] == [*cli.FIRST]
    assert set(re.findall(r"\w+", shown)) >= cli.COMMANDS.keys()
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = re.findall(r"^  (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert listed == [*cli.COMMANDS]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["chek", "x.toml"], "check"),
        (["estimat"], "estimate"),
        (["check", "--lnog", "x.toml"], "--long"),
        (["send", "x.toml", "a.csv", "--id-widht=3"], "--id-width"),
        (["monitor", "sqlite:a.db", "--listne", ":80"], "--listen"),
    ],
)
def test_a_mistyped_word_and_the_word_next_to_it(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(typed) == 2
    assert f"; did you mean '{meant}'?; see 'stream-dp" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["send", "verify"])
def test_a_help_is_there_at_once(name: str) -> None:
    """Python itself and the packages' finders take 60 ms of these on a small machine."""
    least = math.inf
    for _ in range(3):
        before = os.times().children_user + os.times().children_system
        subprocess.run([*MODULE, name, "--help"], check=True, stdout=subprocess.DEVNULL)
        least = min(least, os.times().children_user + os.times().children_system - before)
    assert least <= 0.25, least  # 0.1 s on a machine that does nothing else


def completed(line: str) -> set[str]:
    """What argcomplete proposes for a line whose last word is being typed."""
    code = "from stream_dp.services.commands.cli import main; main()"
    environment = {**os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    environment |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    done = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" stream-dp 8>&1 9>/dev/null', sys.executable, code],
        env=environment,
        capture_output=True,
        text=True,
    )
    return {word.strip() for word in done.stdout.split("\n")} - {""}


def test_words_are_completed() -> None:
    assert completed("stream-dp est") == {"estimate", "estimates"}
    assert completed("stream-dp check --l") == {"--long"}
    assert "asyncapi" in completed("stream-dp schema study.toml --kind ")


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
