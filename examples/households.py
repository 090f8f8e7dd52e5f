"""A synthetic data set of households from two tables: python households.py

`replace_in_place`: one person's answers are protected; households, sizes and regions are not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import stream_dp

dice = np.random.default_rng(1)  # of the simulated tables
region = dice.choice(["north", "south"], 500)
households = pa.table({"household": np.arange(500), "region": region})
home = np.repeat(np.arange(500), dice.integers(1, 4, 500))
work = np.where(dice.random(len(home)) < np.where(region[home] == "north", 0.8, 0.5), "yes", "no")
members = pa.table({"household": home, "work": work})

fitted = stream_dp.fit_tables(
    households,
    members,
    key="household",
    group_values={"region": ["north", "south"]},
    person_values={"work": ["yes", "no"]},
    most=3,
    epsilon=1,
    delta=1e-6,
    rounds=5,
)
groups, people = fitted.sample(seed=2)

print(fitted, "with eps", fitted.epsilon)
print(fitted.model.title, dict(fitted.model.notes))
answers = fitted.model.measurements
for query, value in list(zip(answers.queries, answers.values, strict=True))[:5]:
    print(f"  {query}: {value}")
share = np.mean(np.array(people["work"].to_pylist()) == "yes")
print(f"{groups.num_rows} households; at work: {np.mean(work == 'yes'):.3f}, synthetic {share:.3f}")
