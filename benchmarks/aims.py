"""What each kind of work costs, beside the first measurement and the aim.

    python benchmarks/aims.py

Sending, closing and the first fits are measured, in CPU seconds; the other rows are taken from the
tables in `docs/results/data` that their own benchmarks write. The column *first* is what the same
work cost before it was made faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import axes
from result_file import FOLDER, record

ROWS, PEOPLE, ATTRIBUTES = 300_000, 200_000, 5


def recorded(name: str, row: str, column: str) -> float:
    data = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return float(data["rows"][row][list(data["columns"]).index(column)])


def fit_seconds() -> float:
    """CPU seconds of a fit in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "fit"], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def print_fit() -> None:
    from devices import table_fit

    work = table_fit("mixture")
    start = time.process_time()
    work()
    print(time.process_time() - start)


def measured() -> dict[str, tuple[float | None, str, str, float]]:
    """By kind of work, the first measurement, the aim, the unit, and the measurement."""
    ingest = "kafka-readers"
    many, several = "1,000,000 people, 1 attribute", "1,000,000 people, 5 attributes"
    with TemporaryDirectory() as folder:
        sent = 1e6 * axes.seconds(axes.send(Path(folder), ROWS), 2) / ROWS
    cells = PEOPLE * (ATTRIBUTES + 1)
    closed = 1e9 * axes.seconds(axes.close(PEOPLE, attributes=ATTRIBUTES), 2) / cells
    spark = [
        recorded("spark", f"10^6, {name}", "wall s") for name in ("Spark, 2 tasks", "2 processes")
    ]
    rate = recorded("distance", "10 ms, lz4", "reports per second")
    return {
        "10 ms round trip, batches of 100, lz4": (3.2, "40", "1,000 reports/s", rate / 1000),
        "ingest, 10^6 people": (0.38, "1.2", "of bare", recorded(ingest, many, "bare / compiled")),
        "ingest, five attributes": (
            0.18,
            "0.9",
            "of bare",
            recorded(ingest, several, "bare / compiled"),
        ),
        "close, five attributes": (None, "250", "CPU ns a cell", closed),
        "`send`, judged and encoded": (10.3, "2", "CPU us a row", sent),
        "`mixture`, first fit of a process": (16.3, "7", "CPU s", fit_seconds()),
        "Spark, 10^6 people": (None, "1.5", "of two processes, wall", spark[0] / spark[1]),
        "plan by periods, exponent": (
            2.2,
            "1.2",
            "fitted",
            recorded("axes", "periods", "grows as"),
        ),
    }


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        print_fit()
        return
    for work, (first, aim, unit, now) in measured().items():
        record("aims", work, unit, first, aim, now)
        print(f"{work:<44}{unit:<26}{first or 0:>8,g}{aim:>8}{now:>10,.4g}", flush=True)


if __name__ == "__main__":
    main()
