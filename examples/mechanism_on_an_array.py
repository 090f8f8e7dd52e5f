"""A continual mechanism on an array, without any log: python mechanism_on_an_array.py

The noise is the system's own, so every run prints another panel.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from stream_dp import FixedWindow, Panel, SystemNoise, window_codes

people, width, horizon = 5000, 3, 12
truth = (np.random.default_rng(1).random((people, horizon)) < 0.2).astype(np.uint8)  # simulated

mechanism = FixedWindow(
    values=(0, 1),
    width=width,
    horizon=horizon,
    rho=Fraction(1, 100),
    neighbours="replace_one",
    rows=people,
).best()
print(mechanism.title, "| charges:", *mechanism.charges)

state, panel = mechanism.init(), None
for t in range(1, horizon + 1):
    codes = window_codes(truth[:, max(0, t - width) : t], 2)
    counts = np.bincount(codes, minlength=2**width)  # of every pattern; ignored before t = 3
    state, step = mechanism.step(state, counts, SystemNoise().draw(mechanism.demand(t)))
    if step is not None:
        labels = tuple(str(p) for p in range(t - step.columns.shape[1] + 1, t + 1))
        grown = panel.extended(step.columns, labels) if panel else None
        panel = grown or Panel(step.columns, labels, mechanism.values)

assert panel is not None
every = np.bincount(panel.codes(width), minlength=2**width)
print("pattern   truth  panel")
for code in range(2**width):
    print(f"{code:03b}     {counts[code]:7d} {every[code]:6d}")
