"""A synthetic data set of households from two tables: python households.py

`replace_in_place`: one person's answers are protected; households, sizes and regions are not.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from stream_dp import (
    BatchRelease,
    Column,
    Domain,
    MemoryTranscript,
    SystemNoise,
    from_tables,
    load_synthesizer,
    to_tables,
)

dice = np.random.default_rng(1)  # of the simulated tables
region = dice.choice(["north", "south"], 500)
households = pa.table({"household": np.arange(500), "region": region})
home = np.repeat(np.arange(500), dice.integers(1, 4, 500))
work = np.where(dice.random(len(home)) < np.where(region[home] == "north", 0.8, 0.5), "yes", "no")
members = pa.table({"household": home, "work": work})

domain = Domain((Column("region", ("north", "south")),), (Column("work", ("yes", "no")),), most=3)
hierarchy = from_tables(domain, households, members, "household", "household")
release = BatchRelease(
    name="homes", kind="mwem", attributes=("work",), rho=Fraction(1, 10), rounds=5
)

model = load_synthesizer(release.kind)(
    hierarchy, release, SystemNoise(), MemoryTranscript(), lambda *progress: None
)
groups, people = to_tables(model.sample(seed=2))

print(model.title, dict(model.notes))
for query, value in list(zip(model.measurements.queries, model.measurements.values, strict=True))[
    :5
]:
    print(f"  {query}: {value}")
share = np.mean(np.array(people["work"].to_pylist()) == "yes")
print(f"{groups.num_rows} households; at work: {np.mean(work == 'yes'):.3f}, synthetic {share:.3f}")
