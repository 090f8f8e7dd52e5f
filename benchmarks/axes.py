"""How CPU time grows with people, attributes, ids, strata, periods, and a file's rows and columns.

    python benchmarks/axes.py [AXIS ...] [--times N]

A row for each axis: its sizes, CPU seconds of each, and the exponent b of the fit `c * size ** b`.
Every point is the least of several runs. An exponent does not change with the speed of a machine;
`EXPONENTS` has those that a test holds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
from result_file import record

from stream_dp.log.log import Stored
from stream_dp.planning.plan import plan_study
from stream_dp.population.cells import Cells
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.tables import TableLayout, judge_table
from stream_dp.services.intake.sending import encoded_reports
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

Timed = Callable[[], object]


def study(*, attributes: int = 1, strata: int = 1, periods: int = 12) -> Study:
    """A study whose releases are one window and one total in each stratum."""
    layer = {"attribute": "a0", "strata": "region", "rows": 100, "rho": "1/4"}
    yes_no = {"values": [0, 1], "missing": "absent"}
    regions = {"values": list(range(strata + 1)), "missing": "absent", "fixed": True}
    return parse_study(
        {
            "study": {
                "name": "axes",
                "unit": "person",
                "neighbours": "add_remove",
                "rho": 1,
                "delta": "1e-6",
                "periods": {"first": 1, "every": "step", "count": periods},
            },
            "attributes": {f"a{i}": yes_no for i in range(attributes)} | {"region": regions},
            "releases": [
                {"name": "w", "kind": "window", "width": 3, **layer},
                {"name": "c", "kind": "cumulative", "event": [1], **layer},
            ],
        }
    )


def reports_of_all(people: int, attributes: int, strata: int) -> tuple[Study, Cells]:
    """A study, and the cells of a period in which everybody reports."""
    rng, kinds = np.random.default_rng(1), attributes + 1
    hashes = rng.integers(0, 2**64, (people, 2), dtype=np.uint64)
    codes = rng.integers(0, 2, (kinds, people)).astype(np.int16)
    codes[-1] = np.arange(people) % (strata + 1)
    cells = Cells(
        hi=np.tile(hashes[:, 0], kinds),
        lo=np.tile(hashes[:, 1], kinds),
        period=np.ones(people * kinds, np.uint16),
        attribute=np.repeat(np.arange(kinds, dtype=np.uint16), people),
        code=codes.ravel(),
        partition=np.zeros(people * kinds, np.uint16),
        offset=np.tile(np.arange(people), kinds),
    )
    return study(attributes=attributes, strata=strata), cells


def closed_population(people: int, attributes: int = 1, strata: int = 1) -> Population:
    """A population after a period in which everybody reports."""
    declared, cells = reports_of_all(people, attributes, strata)
    return _closed(declared, cells)


def _closed(declared: Study, cells: Cells) -> Population:
    population = Population(declared)
    population.fold(cells, [])
    population.close()
    return population


def close(people: int, attributes: int = 1, strata: int = 1) -> Timed:
    """The close of a period with a report of everybody."""
    declared, cells = reports_of_all(people, attributes, strata)
    return lambda: _closed(declared, cells)


def decode(length: int) -> Timed:
    """Reports as columns of counts, from people whose ids have `length` characters."""
    people = 50_000
    texts = [
        b'{"person":"%0*d","period":1,"values":{"a0":%d}}' % (length, i, i % 2)
        for i in range(people)
    ]
    records = [Stored(0, i, 0, None, text, ()) for i, text in enumerate(texts)]
    decoder = Decoder(study(), bytes(32))
    return lambda: decoder.decode(records, 0)


def plan(periods: int) -> Timed:
    """The plan of all charges and errors, before any data."""
    declared = study(periods=periods)
    return lambda: plan_study(declared).as_dict()


def send(folder: Path, rows: int, columns: int = 1) -> Timed:
    """Judging and encoding a CSV file, without the log."""
    path, declared = folder / f"{rows}-{columns}.csv", study(attributes=columns)
    values = np.random.default_rng(1).integers(0, 2, rows)
    table = {"person": np.char.mod("p%08d", np.arange(rows)), "period": ["1"] * rows}
    pyarrow.csv.write_csv(pa.table(table | {f"a{i}": values for i in range(columns)}), path)

    def work() -> object:
        judge_table(path, declared, TableLayout())
        return sum(len(b) for b in encoded_reports(path, declared, TableLayout(), quiet=True))

    return work


# By axis: its sizes, and what is timed at a size.
AXES: dict[str, tuple[Sequence[int], Callable[[Path, int], Timed]]] = {
    "people": ((50_000, 100_000, 200_000, 400_000), lambda _, n: close(n)),
    "attributes": ((2, 4, 8, 16), lambda _, n: close(50_000, attributes=n)),
    "ids": ((8, 16, 32, 64), lambda _, n: decode(n)),
    "strata": ((2, 8, 32, 128), lambda _, n: close(100_000, strata=n)),
    "periods": ((12, 24, 48, 96), lambda _, n: plan(n)),
    "rows": ((40_000, 80_000, 160_000, 320_000), send),
    "columns": ((2, 4, 8, 16), lambda folder, n: send(folder, 20_000, n)),
}
# At most, of two quiet runs.
EXPONENTS = {
    "people": 1.15,
    "attributes": 1.0,
    "ids": 0.3,
    "strata": 0.2,
    "periods": 1.8,
    "rows": 1.0,
    "columns": 1.0,
}


def seconds(work: Timed, times: int = 3) -> float:
    """The least CPU time of several runs, in seconds."""
    least = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


def grown(axis: str, times: int) -> tuple[Sequence[int], list[float], float]:
    """The sizes of an axis, CPU seconds at each, and the exponent of their growth."""
    sizes, make = AXES[axis]
    with TemporaryDirectory() as name:
        make(Path(name), sizes[0])()  # what only a first run does
        measured = [seconds(make(Path(name), size), times) for size in sizes]
    exponent, _ = np.polyfit(np.log(sizes), np.log(measured), 1)
    return sizes, measured, float(exponent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(AXES)}")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    print(f"{'axis':<12}{'sizes':<34}{'CPU seconds':<34}{'grows as':>9}{'held':>6}")
    for axis in options.axes or AXES:
        sizes, measured, exponent = grown(axis, options.times)
        points = "  ".join(f"{value:.3f}" for value in measured)
        shown = "  ".join(f"{size:,}" for size in sizes)
        ends = (sizes[0], sizes[-1], measured[0], measured[-1])
        record("axes", axis, *ends, exponent, EXPONENTS[axis])
        print(
            f"{axis:<12}{shown:<34}{points:<34}{exponent:>9.2f}{EXPONENTS[axis]:>6.2f}", flush=True
        )


if __name__ == "__main__":
    main()
