"""The README's commands on Kafka, as they stand, on a broker that runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from kit.fork_server import program
from kit.tools import FETCHED, needs

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text("utf-8").partition("\n## On Kafka in five minutes\n")[2]
COMMANDS = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[0].splitlines()
INSTALLED = re.compile(r"apt-get install|export BROKER=\$\(python3 deploy/kafka/broker\.py")
MOST_SECONDS = 180


def test_there_are_nine_commands_and_the_first_two_set_up() -> None:
    assert len(COMMANDS) == 9
    assert [bool(INSTALLED.match(command)) for command in COMMANDS] == 2 * [True] + 7 * [False]


@pytest.fixture
def shell(kafka: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell beside the examples; `stream-dp` is a fork of a warm process."""
    shutil.copytree(ROOT / "examples" / "kafka", tmp_path / "examples" / "kafka")
    own = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_DP_")}
    folder = tmp_path / "programs"
    folder.mkdir()
    folders = program(folder).parent, Path(sys.executable).parent, FETCHED
    path = os.pathsep.join([*map(str, folders), own["PATH"]])
    return {**own, "PATH": path, "BROKER": kafka}


@needs("kcat")
def test_the_commands_publish_answers_and_a_table(shell: dict[str, str], tmp_path: Path) -> None:
    prefix = f"office{uuid.uuid4().hex[:8]}"
    lines = [re.sub(r"\boffice\b", prefix, command) for command in COMMANDS[2:]]
    # What services say does not come between two halves of a line of the consumer.
    lines = [re.sub(r" &$", " > said.txt &", line) for line in lines]
    study = f"{prefix}.toml"
    exported = f"stream-dp export {study} people tables"
    script = [
        "set -euo pipefail",
        "trap 'kill $(jobs -p); wait' EXIT",
        *lines,
        f"for i in $(seq {MOST_SECONDS}); do {exported} && break; sleep 1; done",
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env=shell,
        capture_output=True,
        text=True,
        timeout=2 * MOST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [
        json.loads(f"{{{line}}}") for line in re.findall(r'^"payload":.*$', done.stdout, re.M)
    ]
    assert len(answers) == 16
    assert {a["payload"]["release"] for a in answers} <= {"out-of-work", "people"}
    columns = parquet.read_schema(tmp_path / "tables" / "people.parquet").names
    assert columns == ["work", "region", "rent"]
