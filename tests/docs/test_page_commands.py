"""Every command of every page runs as it is printed, in page order, or says what it needs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.page_commands import FENCE, GENERATED, PROGRAMS, ROOT, Command, File, pages, steps
from kit.fork_server import program, run

PAGES = pages()
DEMO = "stream-dp demo && cd stream-dp-demo"
# A service runs until it is ended: here, once it has said something.
SERVICE = re.compile(r"stream-dp (?:monitor|worker)\b|stream-dp run (?!.*--until-idle)")
# Commands that take seconds, with the commands that need their output: their pages run whole among
# the slow tests, and without them among the others.
DEAR = re.compile(
    r"stream-dp (?:plan .*--(?:periods 24|alternatives)|export .*xlsx|(?:backup|restore) poverty)"
)
# Pages of which one command takes tens of seconds.
SLOW = {
    "README.md",
    "docs/how-to/audit-a-release.md",
    "docs/how-to/people-and-events.md",
    "docs/how-to/synthetic-households.md",
}
# Other tests run these commands: test_quickstart.py.
ON_KAFKA = re.compile(r"^## On Kafka in five minutes\n.*?(?=^## )", re.M | re.S)
# The README's installation, of which the last command is the demo, with all its households.
INSTALLED_DEMO = re.compile(r"^    apt-get .* && .venv/bin/stream-dp demo$", re.M)
ANSWERS = {
    "stream-dp init answers.csv": ["2025-01, 12", "200", "", "no,yes", "north,south", *[""] * 8],
}
MARK = "@@command"
FEW_HOUSEHOLDS = """
import sys
from stream_dp.services.commands.cli import main
from stream_dp.services.evaluate import simulated_panels
simulated_panels.HOUSEHOLDS = 400
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demo, with fewer households."""
    folder = tmp_path_factory.mktemp("demo") / "stream-dp-demo"
    assert run("-c", FEW_HOUSEHOLDS, "demo", "--out", folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("programs")
    program(folder)
    ours = {name: v for name, v in os.environ.items() if not name.startswith("STREAM_DP_")}
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), ours["PATH"]])
    return {**ours, "PATH": path, "STREAM_DP_WEIGHTS": "false"}


def script(commands: list[Command], demo: Path) -> str:
    """The commands for one shell, which says before each one which it is."""
    lines = ["set -euo pipefail", "exec 2>&1"]
    for number, command in enumerate(commands):
        line = command.line.replace(DEMO, f"cd {demo}")
        answers = next((a for start, a in ANSWERS.items() if line.startswith(start)), None)
        if answers is not None and "<" not in line:
            line = f"printf '%s\\n' {shlex.join(answers)} | {line}"
        if SERVICE.match(line):
            line = re.sub(r" *#.*", "", line)
            if "monitor" in line:
                line = re.sub(r" --listen \S+|$", " --listen 127.0.0.1:0", line, count=1)
            line = (
                f"{line} > said & pid=$!\n"
                "for i in $(seq 300); do [ -s said ] && break; sleep .1; done\n"
                "[ -s said ] && kill $pid; wait $pid || [ $? = 143 ]; cat said; rm said"
            )
        if "would not count" in (command.shown or ""):
            line += " || [ $? = 2 ]"
        lines += [f"echo '{MARK} {number}'", line]
    return "\n".join(lines)


def page_commands(name: str) -> list[Command]:
    """The commands of a page that need nothing, in their order."""
    text = INSTALLED_DEMO.sub("```sh\nstream-dp demo\n```", ON_KAFKA.sub("", PAGES[name]))
    return [step for step in steps(text) if isinstance(step, Command) and not step.needs]


def runs() -> Iterator[Any]:
    """Pages with their commands: all commands, and those that are not dear."""
    for name in PAGES:
        commands = page_commands(name)
        cheap = [command for command in commands if not DEAR.search(command.line)]
        if commands:
            whole_is_slow = name in SLOW or cheap != commands
            yield pytest.param(name, commands, id=name, marks=[pytest.mark.slow] * whole_is_slow)
        if cheap != commands and name not in SLOW:
            yield pytest.param(name, cheap, id=f"{name}-cheap")


@pytest.mark.parametrize(("name", "commands"), [*runs()])
def test_commands_print_what_the_page_shows(
    name: str, commands: list[Command], demo: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for folder in ("examples", "requirements"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for step in steps(PAGES[name]):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text, "utf-8")
    with_weights = {n: v for n, v in environment.items() if n != "STREAM_DP_WEIGHTS"}
    done = subprocess.run(
        ["bash", "-c", script(commands, demo)],
        cwd=tmp_path,
        env=with_weights if name == "docs/tutorial.md" else environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    _, *said = re.split(rf"^{MARK} \d+\n", done.stdout, flags=re.M)
    assert done.returncode == 0, f"{commands[len(said) - 1].line}\n{said[-1][-3000:]}{done.stderr}"
    assert len(said) == len(commands)
    for command, output in zip(commands, said, strict=True):
        if command.shown is not None:
            assert re.fullmatch(command.pattern, output), f"{command.line}\n{output}"


def test_no_command_hides_in_an_indented_block() -> None:
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        text = FENCE.sub("", GENERATED.sub("", path.read_text("utf-8")))
        assert not PROGRAMS.findall(text), path


def test_two_of_three_commands_run() -> None:
    commands = [s for text in PAGES.values() for s in steps(text) if isinstance(s, Command)]
    marked = [command for command in commands if command.needs]
    assert len(commands) > 200
    assert len(marked) < len(commands) / 3


@pytest.mark.parametrize(
    ("shown", "output", "matches"),
    [
        (
            "  estimate        13.1%, standard error 0.4%\n",
            "  estimate   9.02%, standard error 0.4%\n",
            True,
        ),
        (
            "  estimate        13.1%, standard error 0.4%\n",
            "  estimate   9.02, standard error 0.4%\n",
            False,
        ),
        ("  95% interval    12.3% to 14.0%\n", "  95% interval    1.5% to 2%\n", True),
        ("  95% interval    12.3% to 14.0%\n", "  90% interval    1.5% to 2%\n", False),
        ("a 1.5\n", "a 1.6\n", False),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\n", "a\n", True),
        ("a\n...\nz\n", "a\nb\n", False),
        ("head " + "0" * 64 + "\n", "head " + "a" * 64 + "\n", True),
    ],
)
def test_only_what_depends_on_noise_may_differ(shown: str, output: str, matches: bool) -> None:
    assert bool(re.fullmatch(Command("", shown).pattern, output)) is matches
