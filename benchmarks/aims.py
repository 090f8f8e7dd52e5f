"""What each kind of work costs, beside the first measurement and the aim.

    RECORD=1 python benchmarks/aims.py [--present]

Runs the benchmarks that write the tables in `docs/results/data`, one after another, and takes
their figures from these tables; sending, closing, counting, noise and the first fit are measured
here. `--present` leaves out the other benchmarks and takes the tables as they are. The column
*first* is what the same work cost before it was made faster. The machine must have nothing else
to do meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import axes
import numpy as np
from result_file import FOLDER, record

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.privacy.noise import SystemNoise

ROWS, PEOPLE, ATTRIBUTES, STRATA = 300_000, 200_000, 5, 64
DRAWS = 4096  # of noise, as many as a table of people has cells
COUNTED, COLUMNS, VALUES = 1_000_000, 12, 8
OTHERS = (
    ["axes.py"],
    ["commands.py"],
    ["long_horizons.py"],
    ["distance.py", "0.01", "--codecs", "producer,lz4"],
    ["ingest.py", "--people", "1000000"],
    ["spark.py"],
)
Row = tuple[float | None, str, str, float]


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


def send_microseconds() -> float:
    with TemporaryDirectory() as folder:
        return 1e6 * axes.seconds(axes.send(Path(folder), ROWS)) / ROWS


def close_nanoseconds() -> float:
    cells = PEOPLE * (ATTRIBUTES + 1)
    return 1e9 * axes.seconds(axes.close(PEOPLE, attributes=ATTRIBUTES)) / cells


def strata_bytes() -> float:
    """Bytes of a person's state after a close, without the hash."""
    population = axes.closed_population(PEOPLE, strata=STRATA)
    return sum(column.nbytes for column in population.columns.values()) / PEOPLE


def count_nanoseconds() -> float:
    """To count the marginal of a pair of columns, by person."""
    columns = tuple(Column(f"c{i}", tuple(range(VALUES))) for i in range(COLUMNS))
    codes = np.random.default_rng(1).integers(0, VALUES, (COUNTED, COLUMNS), np.uint8)
    people = People(PeopleDomain(columns, moves=True, replaced=False), codes)
    pairs = [(a, a + 1) for a in range(COLUMNS - 1)]

    def work() -> None:
        for pair in pairs:
            marginal_counts(people, pair)

    return 1e9 * axes.seconds(work) / COUNTED / len(pairs)


def million_draws() -> float:
    """Millions of draws of exact noise in a second."""
    noise, demand = SystemNoise(), [(Fraction(1000), DRAWS)] * 100
    return DRAWS * len(demand) / 1e6 / axes.seconds(lambda: noise.draw(demand))


def rows() -> dict[str, Row]:
    """By kind of work, the first measurement, the aim, the unit, and the measurement."""
    ingest, horizons, fitted = "kafka-readers", "horizons", "periods ^ b"
    many, several = "1,000,000 people, 1 attribute", "1,000,000 people, 5 attributes"
    spark = [
        recorded("spark", f"1,000,000, {name}", "wall s")
        for name in ("spark, 2 tasks", "2 processes")
    ]
    rate = recorded("distance", "10 ms, lz4, 100", "reports per second")
    of_bare = [recorded(ingest, row, "bare / compiled") for row in (many, several)]
    grows = {
        column: recorded(horizons, "grows as", column)
        for column in ("journal, kB a close", "check", "restart", "verify")
    }
    return {
        "10 ms round trip, batches of 100, lz4": (3.2, "40", "1,000 reports/s", rate / 1000),
        "ingest, 10^6 people": (0.38, "1.2", "of bare", of_bare[0]),
        "ingest, five attributes": (0.18, "0.9", "of bare", of_bare[1]),
        "close, five attributes": (None, "250", "CPU ns a cell", close_nanoseconds()),
        "64 strata": (1272, "40", "bytes a person", strata_bytes()),
        "journal of totals, a close": (1.9, "0.2", fitted, grows["journal, kB a close"]),
        "`check`": (2.2, "1.2", fitted, grows["check"]),
        "restart": (1.8, "1.2", fitted, grows["restart"]),
        "`verify`": (2.1, "1.2", fitted, grows["verify"]),
        "plan": (2.2, "1.2", fitted, recorded("axes", "periods", "grows as")),
        "`mixture`, first fit of a process": (16.3, "7", "CPU s", fit_seconds()),
        "counting a pair of columns": (6.5, "2.7", "CPU ns a person", count_nanoseconds()),
        "4,096 draws of noise": (0.085, "5", "10^6 draws/s", million_draws()),
        "Spark, 10^6 people": (2.5, "1.5", "of two processes, wall", spark[0] / spark[1]),
        "`send`, judged and encoded": (10.3, "2", "CPU us a row", send_microseconds()),
    }


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        print_fit()
        return
    if sys.argv[1:] != ["--present"]:
        if not os.environ.get("RECORD"):
            sys.exit("aims.py: set RECORD=1, for the figures come from tables; or say --present")
        for script, *options in OTHERS:
            print(f"\n{script} {' '.join(options)}", flush=True)
            path = str(Path(__file__).with_name(script))
            subprocess.run([sys.executable, path, *options], check=True)
    print(f"\n{'work':<44}{'unit':<26}{'first':>8}{'aim':>8}{'now':>10}")
    for work, (first, aim, unit, now) in rows().items():
        record("aims", work, unit, first, aim, now)
        print(f"{work:<44}{unit:<26}{first or 0:>8,g}{aim:>8}{now:>10,.4g}", flush=True)


if __name__ == "__main__":
    main()
