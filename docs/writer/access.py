"""Who may read and write which topic, from a run of the script that grants it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy" / "kafka" / "acls.sh"
_ROLES = ("producer", "releaser", "worker", "aggregator", "operator", "analyst")
_PARTS = ("BATCHES", "PARTS", "OPERATED", "ESTIMATES")


def rights() -> dict[str, dict[str, set[str]]]:
    """By topic and role, the operations that the script grants with every part of a study."""
    parts = {**dict.fromkeys(_PARTS, "yes"), "PREFIX": "PREFIX", "PUBLIC_PREFIX": "PUBLIC"}
    environment = {"PATH": os.environ["PATH"], "BOOTSTRAP": "-", "ADMIN_CONFIG": "-", **parts}
    environment["KAFKA_ACLS"] = "true"  # grants nothing; the shell's trace has its arguments
    done = subprocess.run(
        ["sh", "-x", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    granted: dict[str, dict[str, set[str]]] = {}
    for line in re.findall(r"^\++ true --bootstrap-server (.*)$", done.stderr, re.MULTILINE):
        line = line.replace("'", "")
        for topic in re.findall(r"--topic (\S+)", line):
            for role in re.findall(r"--allow-principal User:(\w+)", line):
                operations = granted.setdefault(topic, {}).setdefault(role, set())
                operations |= set(re.findall(r"--operation (\w+)", line))
    return granted


def markdown() -> str:
    heads = ["topic", *(f"{role}s" if role != "releaser" else role for role in _ROLES)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for topic, roles in rights().items():
        cells = [f"`{topic.removeprefix('PREFIX.')}`"]
        for role in _ROLES:
            words = [w for w in ("Read", "Write") if w in roles.get(role, ())]
            cells.append(", ".join(words).lower())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
