"""The compiled decoder against the decoder in Python on fuzzed reports, 30 % of them hostile.

    python benchmarks/compiled_equality.py [REPORTS] [--seed SEED]

Both decode the same records, in batches of random sizes, for studies with every rule for ids. The
cells and the rejections must be the same; the first batch that differs is printed as bytes and ends
the run with exit code 1. The reports are those of tests/kit/fuzzed_reports.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.fuzzed_reports import HOSTILE, fuzzed_records, fuzzed_study

from stream_dp.log.log import Stored
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.split import ordered

RULES = ({}, {"trim": True}, {"case": "fold"}, {"trim": True, "case": "fold", "unicode": "NFKC"})
LARGEST_BATCH = 5000


def same(compiled: Decoder, python: Decoder, records: list[Stored], closed: int) -> bool:
    results = [decoder.decode(records, closed) for decoder in (compiled, python)]
    first, second = (ordered(cells).columns() for cells, _ in results)
    rejected = [{record.row: record.cells for record in refused} for _, refused in results]
    return rejected[0] == rejected[1] and all(map(np.array_equal, first, second))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("reports", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs = []
    for rule in RULES:
        pairs.append(
            (Decoder(fuzzed_study(**rule), bytes(32)), Decoder(fuzzed_study(**rule), bytes(32)))
        )
        pairs[-1][1]._compiled = None
        if pairs[-1][0]._compiled is None:
            sys.exit("the compiled reader is not installed: see docs/how-to/compiled-reader.md")
    draw, count, begun = random.Random(options.seed), 0, time.process_time()
    while count < options.reports:
        size = min(draw.randint(1, LARGEST_BATCH), options.reports - count)
        values = fuzzed_records(draw, size)
        records = [Stored(i % 3, i, 0, None, value, ()) for i, value in enumerate(values)]
        compiled, python = pairs[draw.randrange(len(pairs))]
        if not same(compiled, python, records, draw.randrange(3)):
            print(f"different after {count} reports of seed {options.seed}: {values!r}")
            sys.exit(1)
        count += size
    seconds = time.process_time() - begun
    print(f"{count} reports, {HOSTILE:.0%} hostile: no difference; {seconds:.0f} s CPU")


if __name__ == "__main__":
    main()
