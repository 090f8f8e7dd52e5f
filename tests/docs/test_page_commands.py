"""Every command of every page runs as it is printed, in page order, or says what it needs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from docs.page_commands import FENCE, GENERATED, PROGRAMS, ROOT, Command, File, pages, steps
from kit.fork_server import program

from stream_dp.services.commands.cli import main
from stream_dp.services.evaluate import simulated_panels

PAGES = pages()
DEMO = "stream-dp demo && cd stream-dp-demo"
# A service runs until it is ended: here, once it has said something.
SERVICE = re.compile(r"stream-dp (?:monitor|worker)\b|stream-dp run (?!.*--until-idle)")
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
    "stream-dp init survey.csv": ["2024-01, 12", "28", "Yes,No", *[""] * 8],
}
MARK = "@@command"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demo, with fewer households."""
    folder = tmp_path_factory.mktemp("demo") / "stream-dp-demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_panels, "HOUSEHOLDS", 2000)
        assert main(["demo", "--out", str(folder)]) == 0
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
            # A process of its own: a forked one would outlive the program that a shell ends.
            line = re.sub(r" *#.*", "", line).replace("stream-dp", "python -m stream_dp", 1)
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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PAGES]
)
def test_commands_print_what_the_page_shows(
    name: str, demo: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    text = INSTALLED_DEMO.sub("```sh\\nstream-dp demo\\n```", ON_KAFKA.sub("", PAGES[name]))
    page = [*steps(text)]
    for folder in ("examples", "requirements"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for step in page:
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text, "utf-8")
    commands = [step for step in page if isinstance(step, Command) and not step.needs]
    if not commands:
        return
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
