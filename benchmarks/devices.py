"""Seconds of fits on the processor and, where JAX sees one, on the GPU beside it.

    python benchmarks/devices.py

Of `hpd-fixed`, groups of up to 6 with 8 attributes of members as in `batch.py`: a
round answers all queries and takes 50 steps on 4,096 measured ones, by queries (to 10^5) and rows
of the mixture (to 10^4). Of `mixture` and `rap`: a whole fit of the simulated `chain` of
`people.py`, 20,000 people, 14 columns. All without compilation, each in a process of its own. What
would take the processor more than two minutes is left out of its column (-). `independent` and
`mwem` never use a GPU. RECORD=1 writes the table of the results.

Where JAX sees none this says so in one line, and measures nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import batch
import numpy as np
from result_file import record

STEPS, MEASURED, LIMIT = 50, 4096, 120.0
GUESS = 5e-9, 2e-8  # seconds of a processor for a query's answer and gradient, a row and slot
GROUPED, PEOPLE = "hpd-fixed", ("mixture", "rap")
SIZES = [(queries, rows) for queries in (10**3, 10**4, 10**5) for rows in (200, 10**3, 10**4)]


def grouped_round(queries: int, rows: int) -> Callable[[], object]:
    """The function that makes a round."""
    from stream_dp.batch.groups.hpd.hpd_synthesizer import UPDATES
    from stream_dp.batch.groups.hpd.product_mixture import HPD, MeasuredQueries
    from stream_dp.batch.groups.workload.queries import all_marginals

    model = HPD(batch.domain("alike"), 10**5, 25 * 10**4, rows)
    pool = [m for k in (2, 3, 4) for m in all_marginals(model.domain, k, range(2))]
    encoded = model.encode(batch.sampled_queries(pool, queries, np.random.default_rng(1)))
    measured = encoded.take(slice(0, MEASURED))
    values = model.answers(model.init(3), measured)
    noisy = MeasuredQueries(measured, values, np.ones(len(values)))
    params, adam = model.init(2), UPDATES._replace(steps=STEPS)

    def work() -> None:
        model.answers(params, encoded)
        model.fit(params, noisy, adam)

    return work


def table_fit(kind: str) -> Callable[[], object]:
    """The function that fits a table of people."""
    from people import RHO, chain

    from stream_dp.batch import kinds
    from stream_dp.batch.data.domain import Column
    from stream_dp.batch.people.people_table import People, PeopleDomain
    from stream_dp.batch.synthesizer import FitContext
    from stream_dp.privacy.noise import SeededNoise
    from stream_dp.study import PeopleRelease

    codes = chain()
    columns = tuple(Column(f"c{i}", tuple(range(n + 1))) for i, n in enumerate(codes.max(0)))
    people = People(PeopleDomain(columns, moves=True, replaced=False), codes)
    names = tuple(c.name for c in columns)
    release = PeopleRelease(name="t", kind=kind, attributes=names, rho=RHO, every=1)
    fit = kinds.load_synthesizer(kind)
    return lambda: fit(people, release, FitContext(SeededNoise(1)))


def seconds(kind: str, queries: int, rows: int) -> float:
    """Of the second time, which compiles nothing."""
    work = table_fit(kind) if kind in PEOPLE else grouped_round(queries, rows)
    work()
    return batch.timed(work)


def affordable(queries: int, rows: int) -> bool:
    """Whether a processor makes two rounds, and compiles, within the limit."""
    learnt = 2 * STEPS * min(queries, MEASURED) * GUESS[1]
    return 2 * (queries * GUESS[0] + learnt) * rows * batch.MOST < LIMIT


def measured(kind: str, queries: int, rows: int, device: str) -> float:
    """The seconds in a process of its own; device: `cpu` or `gpu`."""
    environment = {**os.environ, **({"JAX_PLATFORMS": "cpu"} if device == "cpu" else {})}
    command = [sys.executable, __file__, kind, str(queries), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(json.loads(done.stdout))


def table() -> None:
    import jax

    if jax.default_backend() == "cpu":
        print("devices: JAX sees no GPU here, so there is nothing to compare; nothing was measured")
        return
    print(f"{jax.devices()[0].device_kind} beside {os.cpu_count()} processors")
    print(f"{'kind':<10}{'queries':>9}{'rows':>8}{'CPU, s':>10}{'GPU, s':>10}{'ratio':>8}")
    every = [(GROUPED, *size) for size in SIZES] + [(k, 0, 0) for k in PEOPLE]
    for kind, queries, rows in every:
        gpu = measured(kind, queries, rows, "gpu")
        cpu = measured(kind, queries, rows, "cpu") if affordable(queries, rows) else None
        sizes = f"{queries or '':>9}{rows or '':>8}"
        print(f"{kind:<10}{sizes}{batch.shown(cpu, 3):>10}{gpu:>10.3f}", end="")
        ratio = cpu and cpu / gpu
        print(f"{batch.shown(ratio, 1):>8}", flush=True)
        size = f", {queries:,} queries, {rows:,} rows" if queries else ", 20,000 people, 14 columns"
        record("devices", f"`{kind}`{size}", cpu, gpu, ratio)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(seconds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
    elif len(sys.argv) > 1:
        sys.exit("usage: devices.py")
    else:
        table()
