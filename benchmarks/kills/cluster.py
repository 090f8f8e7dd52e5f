"""The crash matrix on three brokers with three replicas: leaders die, and some lose their data.

    python benchmarks/kills/cluster.py [KILLS [DEATHS]]

KILLS of the releaser; DEATHS of the broker that leads the journal, the public topic or anything
else, with SIGKILL, while the releaser goes on. Every other one comes back without the records of
any topic, as after a power failure. Prints the table of `matrix.py`; exit code 1 if anything in it
is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "kafka"), str(ROOT / "tests"), str(ROOT / "deploy" / "kafka")]

import matrix  # noqa: E402
from broker import FOLDER  # noqa: E402
from kit.clusters import Cluster  # noqa: E402


def main() -> int:
    kills, deaths = (int(x) for x in [*sys.argv[1:], "40", "12"][:2])
    report = matrix.run(
        *(kills, kills + 4 * deaths),
        broker_kills=deaths,
        second=2,
        libs=FOLDER / "libs",
        brokers=Cluster,
    )
    print(report.table())
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
