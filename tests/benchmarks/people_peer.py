"""A peer's synthetic table, in a Python that can run private-pgm; see `people.py`.

That is one with jax 0.4.35, pandas 2, networkx, scipy, matplotlib and attrs: newer ones of the
first two end in errors of its programs.

`python people_peer.py CLONE aim|mst RHO SEED TABLE.csv OUT.csv`. CLONE: of the repository
github.com/ryan112358/private-pgm, whose programs are run as they are, with its own `mbi`, but for
the budget: rho is given, not (epsilon, delta). AIM's workload is all pairs of columns, as its
command's. TABLE has codes from 0 to the largest in each column. Prints the CPU seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import sys
import time

import numpy as np
import pandas as pd

folder, name, rho, seed, table, out = sys.argv[1:]
sys.path[:0] = [f"{folder}/mechanisms", f"{folder}/src"]
mbi, mechanism = importlib.import_module("mbi"), importlib.import_module(name)
codes = pd.read_csv(table)
domain = mbi.Domain.fromdict({column: int(codes[column].max()) + 1 for column in codes})
data = mbi.Dataset(codes, domain)
# The peers draw from the global generator.
np.random.seed(int(seed))  # noqa: NPY002
began = time.process_time()
with contextlib.redirect_stdout(io.StringIO()):
    if name == "mst":
        mechanism.cdp_rho = lambda epsilon, delta: float(rho)
        synthetic = mechanism.MST(data, 1.0, 1e-9)
    else:
        aim = mechanism.AIM(1.0, 1e-9, prng=np.random)
        aim.rho = float(rho)
        pairs = [(pair, 1.0) for pair in itertools.combinations(domain.attrs, 2)]
        synthetic = aim.run(data, pairs)[1]
spent = time.process_time() - began
synthetic.df[list(codes)].to_csv(out, index=False)
print(spent)
