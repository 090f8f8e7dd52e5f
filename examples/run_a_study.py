"""A whole study on SQLite logs: python run_a_study.py FOLDER

Simulated people report whether they are out of work; four months are released.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from stream_dp.services.commands.cli import main

STUDY = """
[study]
name = "work"
unit = "person"
neighbours = "replace_one"
rho = 0.05
delta = 1e-6
periods = { first = "2026-01", every = "month", count = 4, close = "marker" }
population = { size = 2000 }
[attributes.work]
values = ["yes", "no"]
missing = "yes"
[[releases]]
name = "patterns"
kind = "window"
attribute = "work"
width = 2
share = 1
"""


def run(folder: Path) -> str:
    """Release the study in an empty folder; the name of its public log."""
    study, table = folder / "work.toml", folder / "reports.csv"
    study.write_text(STUDY, "utf-8")
    months = ["2026-01", "2026-02", "2026-03", "2026-04"]
    out = np.random.default_rng(1).random((2000, len(months))) < 0.1  # simulated
    columns = {month: np.where(out[:, i], "no", "yes") for i, month in enumerate(months)}
    pa.csv.write_csv(pa.table({"person": np.arange(2000).astype(str), **columns}), table)
    for command in (
        ["send", str(study), str(table), "--attribute", "work"],
        ["close", str(study), months[-1]],
        ["run", str(study), "--until-idle"],
    ):
        if code := main(command):
            raise SystemExit(code)
    return f"sqlite:{folder / 'work-public.db'}"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: run_a_study.py FOLDER, one that is there and empty", file=sys.stderr)
        sys.exit(2)
    print(run(Path(sys.argv[1])))
