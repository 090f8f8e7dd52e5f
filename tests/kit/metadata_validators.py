"""The validators of Croissant and of Frictionless, which read the described files, too."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import fork_server

# In a process of its own: they import what warns.
_PROGRAM = """
import json, sys
import frictionless, mlcroissant
from kit.json_schemas import library
library()
found = {}
for folder in sys.argv[1:]:
    data = mlcroissant.Dataset(jsonld=f"{folder}/croissant.json")
    issues = data.metadata.ctx.issues
    rows = {
        records.uuid: sum(1 for _ in data.records(records.uuid))
        for records in data.metadata.record_sets
    }
    report = frictionless.validate(f"{folder}/datapackage.json")
    found[folder] = {
        "warnings": sorted(issues.warnings),
        "rows": rows,
        "faults": report.flatten(["type", "message"]) + [[e.type, e.note] for e in report.errors],
        "tasks": {task.name: task.stats.get("rows") for task in report.tasks},
    }
print(json.dumps(found))
"""


def validated(folders: Sequence[Path]) -> dict[str, Any]:
    """By folder: the warnings and the rows of records by Croissant, the faults by Frictionless.

    Raises AssertionError for a description that cannot be read.
    """
    environment = {**os.environ, "PYTHONPATH": str(fork_server.TESTS)}
    done = fork_server.run("-c", _PROGRAM, *folders, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
