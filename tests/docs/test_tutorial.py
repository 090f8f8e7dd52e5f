"""The tutorial's commands, run as they are printed, print what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.tutorial import PAGE, Command, File, steps
from kit.fork_server import program


def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path, tmp_path_factory):
    outside = {name: v for name, v in os.environ.items() if not name.startswith("STREAM_DP_")}
    programs = tmp_path_factory.mktemp("programs")
    program(programs)
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = 0
    for step in steps(PAGE.read_text("utf-8")):
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text, "utf-8")
            continue
        done = subprocess.run(
            step.words,
            shell=True,
            cwd=tmp_path,
            env={**outside, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{step.words}\n{done.stdout}"
        assert re.fullmatch(step.pattern, done.stdout), f"{step.words}\n{done.stdout}"
        commands += 1
    assert commands > 12


@pytest.mark.parametrize(
    ("shown", "noise", "output", "matches"),
    [
        ("a 1.5  b\n", True, "a 27  b\n", True),
        ("a 1.5  b\n", True, "a 1.5 c\n", False),
        ("a 1.5\n", False, "a 1.6\n", False),
        ("a\n...\nz\n", False, "a\nb\nc\nz\n", True),
        ("a\n...\n", False, "a\n", True),
        ("a\n...\nz\n", False, "a\nb\n", False),
        ("head " + "0" * 64 + "\n", True, "head " + "a" * 64 + "\n", True),
    ],
)
def test_patterns_say_what_is_printed(shown, noise, output, matches):
    command = Command("", shown, noise)
    assert bool(re.fullmatch(command.pattern, output)) is matches
