"""Seconds that `send` takes for a file of reports, and how much of them judging it takes.

    python benchmarks/sending.py [ROWS]

The files are long, in CSV and in Parquet; the log is SQLite. Sending alone is what `send` would
take if it judged nothing. Both are measured in the same run, and so is the memory of both.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.population.tables import TableLayout, judge_table
from stream_dp.services.intake.sending import known_reports, send_table
from stream_dp.services.storage.deployment import Deployment

STUDY = """
[study]
name = "sending"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = "2021-01"
every = "month"
count = 12
[study.population]
size = 100_000_000
[attributes.poverty]
values = [0, 1]
missing = 0
[[releases]]
name = "months"
kind = "window"
attribute = "poverty"
width = 1
rho = 1
"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    values = np.random.default_rng(1).integers(0, 2, rows)
    people = np.char.mod("p%08d", np.arange(rows))
    table = pa.table({"person": people, "period": ["2021-01"] * rows, "poverty": values})
    print(f"{rows} rows; seconds")
    print(f"{'file':<12}{'known':>8}{'judging':>10}{'sending':>10}{'slower':>9}{'MB':>7}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        pyarrow.csv.write_csv(table, folder / "t.csv")
        pyarrow.parquet.write_table(table, folder / "t.parquet")
        del table, people, values
        for path in (folder / "t.csv", folder / "t.parquet"):
            study = folder / f"{path.suffix[1:]}.toml"
            study.write_text(STUDY + f'[run]\nlog = "sqlite:{path.suffix[1:]}.db"\n')
            deployment, layout = Deployment.load(study), TableLayout()
            send_table(deployment, path, layout, quiet=True)
            known = seconds(partial(known_reports, deployment))
            judging = seconds(partial(judge_table, path, deployment.study, layout))
            sending = seconds(partial(send_table, deployment, path, layout, quiet=True))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            slower = (known + judging + sending) / sending
            print(
                f"{path.name:<12}{known:>8.2f}{judging:>10.2f}{sending:>10.2f}{slower:>9.2f}"
                f"{memory:>7}"
            )


if __name__ == "__main__":
    main()
