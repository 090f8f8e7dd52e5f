"""Samples and panels as other people's programs take them: python benchmarks/drop_in.py

SDMetrics judges a table and two tables of households, linearmodels regresses on a panel, pandera
checks types, and pyright checks a script. In a virtual environment of its own:

    pip install . sdmetrics==0.32.0 linearmodels==7.1 pandera==0.35.0 pyright==1.1.414
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pandera.pandas as pandera
from linearmodels.panel import PanelOLS
from sdmetrics.reports import multi_table, single_table

import stream_dp

SCRIPT = """
import pandas as pd
import stream_dp

people = pd.DataFrame({"work": ["yes", "no"], "car": ["a", "b"]})
values = {"work": ["yes", "no"], "car": ["a", "b"]}
fitted = stream_dp.fit(people, epsilon=1.0, delta=1e-9, neighbours="add_remove", values=values)
sample: pd.DataFrame = fitted.sample()
print(sample)
"""


def simulated() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Households, and their members."""
    dice = np.random.default_rng(1)
    regions = pd.Categorical(dice.choice(["north", "south"], 2000, p=[0.3, 0.7]))
    homes = pd.DataFrame({"household": np.arange(2000) + 10**6, "region": regions})
    at = np.repeat(np.arange(2000), dice.integers(1, 4, 2000))
    work = np.where(dice.random(len(at)) < np.where(regions[at] == "north", 0.8, 0.5), "yes", "no")
    members = pd.DataFrame(
        {
            "household": homes.household.to_numpy()[at],
            "work": work,
            "children": np.minimum(dice.poisson(0.8, len(at)), 3),
        }
    )
    return homes, members


def checked(sample: pd.DataFrame, real: pd.DataFrame) -> str:
    """What pandera says of a sample, against the types of the real table."""
    columns = {name: pandera.Column(kind) for name, kind in real.dtypes.items()}
    pandera.DataFrameSchema(columns, strict=True).validate(sample)
    return "the same columns and types"


def main() -> None:
    homes, members = simulated()
    values = {"work": ["yes", "no"], "children": [0, 1, 2, 3]}
    table = members[[*values]]
    fitted = stream_dp.fit(table, epsilon=1, delta=1e-9, neighbours="add_remove", values=values)
    sample = fitted.sample()
    columns = {"work": {"sdtype": "categorical"}, "children": {"sdtype": "numerical"}}
    quality = single_table.QualityReport()
    quality.generate(table, sample, {"columns": columns}, verbose=False)
    print(f"one table, SDMetrics: quality {quality.get_score():.3f}; {checked(sample, table)}")

    declared = {"region": ["north", "south"]}
    made = stream_dp.fit_tables(
        homes,
        members,
        key="household",
        most=3,
        rho=0.5,
        group_values=declared,
        person_values=values,
    )
    tables = dict(zip(("homes", "members"), made.sample(), strict=True))
    real = {"homes": homes, "members": members}
    metadata = {
        "tables": {
            "homes": {
                "primary_key": "household",
                "columns": {"household": {"sdtype": "id"}, "region": {"sdtype": "categorical"}},
            },
            "members": {"columns": {"household": {"sdtype": "id"}, **columns}},
        },
        "relationships": [
            {
                "parent_table_name": "homes",
                "parent_primary_key": "household",
                "child_table_name": "members",
                "child_foreign_key": "household",
            }
        ],
    }
    for kind in (multi_table.QualityReport, multi_table.DiagnosticReport):
        report = kind()
        report.generate(real, tables, metadata, verbose=False)
        print(f"two tables, SDMetrics: {kind.__name__} {report.get_score():.3f}")
    said = [checked(tables[name], real[name]) for name in real]
    print(f"two tables, pandera: {', '.join({*said})}")

    work = np.random.default_rng(2).integers(0, 2, (2000, 6))
    panel = stream_dp.window(
        work, width=2, first="2026-01", rho=0.1, delta=1e-9, neighbours="replace_one"
    ).long()
    panel["before"] = panel.groupby(level="row").value.shift()
    model = PanelOLS.from_formula("value ~ before + TimeEffects", panel.dropna())
    print(f"panel, linearmodels: coefficient {model.fit().params['before']:.3f}; the true one is 0")

    with TemporaryDirectory() as folder:
        (Path(folder) / "script.py").write_text(SCRIPT, "utf-8")
        pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "script.py"]
        done = subprocess.run(pyright, cwd=folder, capture_output=True, text=True, check=False)
        print(f"script, pyright: {done.stdout.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
