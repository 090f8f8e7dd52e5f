"""A study in a script, on logs in memory: python study_in_a_script.py

The people are simulated; the noise is the system's own, so every run prints other digits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import stream_dp

months = ["2026-01", "2026-02", "2026-03", "2026-04"]
study = stream_dp.parse_study(
    {
        "study": {
            "name": "work",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": "1/20",
            "delta": "1/1000000",
            "periods": {"first": months[0], "every": "month", "count": len(months)},
            "population": {"size": 2000},
        },
        "attributes": {"work": {"values": ["yes", "no"], "missing": "yes"}},
        "releases": [
            {"name": "pairs", "kind": "window", "attribute": "work", "width": 2, "share": 1}
        ],
    }
)
work = np.random.default_rng(1).choice(["yes", "no"], (2000, len(months)), p=[0.9, 0.1])
reports = pa.table(
    {"person": np.arange(2000).astype(str), **dict(zip(months, work.T, strict=True))}
)

public = stream_dp.run_study(study, reports, attribute="work")
out = public.answer("pairs", "at-least 1 of last 2 work=no")
print(f"{out.query}: {out.value:.4f} +- {out.standard_error:.4f}")
print(public.estimates("pairs").slice(0, 4).to_pylist())
print(public.panel("pairs").table().slice(0, 3).to_pylist())
