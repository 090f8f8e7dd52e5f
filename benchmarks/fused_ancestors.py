"""Certificates of fused tables whose jobs end in every way: `python benchmarks/fused_ancestors.py`.

A study has four fused tables. The job of each month is handed in, handed in and abandoned, refused,
or refused and retried after all months: 256 orders. Prints how many certificates state less than
was spent, or leave out a table that the published one descends from. Every number of faults must
be 0.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kit.fused_months import ENDS, MONTHS, ORDERS, understatements
from tqdm import tqdm


def main() -> int:
    orders, faults = Counter[str](), Counter[str]()
    folder = Path(mkdtemp(prefix="stream-dp-"))
    try:
        for ends in tqdm(ORDERS, disable=None):
            lines = understatements(folder / "study", ends)
            shutil.rmtree(folder / "study")
            for line in lines:
                print(f"{', '.join(ends)}: {line}", flush=True)
            for end in {*ends}:
                orders[end] += 1
                faults[end] += bool(lines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{MONTHS} fused months, {len(ORDERS)} orders")
    print(f"{'with a job to':<16} {'orders':>7} {'faults':>7}")
    for end in ENDS:
        print(f"{end:<16} {orders[end]:>7} {faults[end]:>7}")
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main())
