"""The compiled decoder against the decoder in Python on fuzzed reports, many of them hostile.

    python benchmarks/compiled_equality.py [REPORTS] [--seed SEED]

Both decode the same records, in batches of random sizes, for studies with every rule for ids. The
cells and the rejections must be the same; the first batch that differs is printed as bytes and ends
the run with exit code 1. The reports are those of tests/kit/fuzzed_reports.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.fuzzed_reports import fuzzed_study, fuzzed_values

from stream_dp.log.records import Records
from stream_dp.population.cells import Cells
from stream_dp.population.report_decoding import Decoder

RULES = (
    {},
    {"as_written": True},
    {"case": "fold"},
    {"nobody": [], "case": "fold", "unicode": "NFKC"},
)
LARGEST_BATCH = 20_000
PARTITIONS = 3
CLOSED = (0, 0, 0, 0, 1, 2)  # the last closed period, whose reports are late
SHOWN = 10_000_000  # reports between two lines of progress


def records_of(values: pa.Array) -> Records:
    """Records of some partitions in turn with these values, without keys and headers."""
    offsets, records = np.arange(len(values)), Records()
    partitions, keys = offsets % PARTITIONS, pa.nulls(len(values), pa.large_binary())
    numbers = (array("q", column.tolist()) for column in (partitions, offsets, 0 * offsets))
    records.add(*numbers, keys, values, [()] * len(values))
    return records


def in_order(cells: Cells) -> list[bytes]:
    """The columns of cells by offset and attribute, which are unique here."""
    order = np.argsort(cells.offset << 16 | cells.attribute)
    return [column[order].tobytes() for column in cells.columns()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("reports", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs = []
    for rule in RULES:
        pairs.append([Decoder(fuzzed_study(**rule), bytes(32)) for _ in range(2)])
        if pairs[-1][0]._compiled is None:
            sys.exit("the compiled reader is not installed: see docs/how-to/compiled-reader.md")
        pairs[-1][1]._compiled = None
    draw, begun = np.random.default_rng(options.seed), time.process_time()
    count = cells_in_all = refused = 0
    while count < options.reports:
        size = min(int(draw.integers(1, LARGEST_BATCH + 1)), options.reports - count)
        values, closed = fuzzed_values(draw, size), int(draw.choice(CLOSED))
        decoders = pairs[draw.integers(len(pairs))]
        results = [decoder.decode(records_of(values), closed) for decoder in decoders]
        rejected = [{record.row: record.cells for record in found} for _, found in results]
        first, second = (in_order(cells) for cells, _ in results)
        if first != second or rejected[0] != rejected[1]:
            print(f"different after {count} reports of seed {options.seed}: {values.to_pylist()!r}")
            sys.exit(1)
        count, cells_in_all = count + size, cells_in_all + len(results[0][0])
        refused += len(rejected[0])
        if count // SHOWN > (count - size) // SHOWN or count == options.reports:
            seconds = time.process_time() - begun
            print(
                f"{count:,} reports, {cells_in_all:,} cells, {refused / count:.0%} rejected: no"
                f" difference; {seconds:,.0f} s CPU, {1e6 * seconds / count:.1f} us a report",
                flush=True,
            )


if __name__ == "__main__":
    main()
