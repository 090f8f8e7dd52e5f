"""A peer's synthetic table, in a Python that can run private-pgm; `peers.py` runs it.

That is one with jax 0.4.35, optax 0.2.5, pandas 2, chex, networkx, scipy, matplotlib and attrs:
newer ones of the first and the third end in errors of its programs.

`python people_peer.py CLONE aim|mst RHO SEED MEGABYTES STEPS SIZES TABLE.csv OUT.csv`. CLONE: of
the repository github.com/ryan112358/private-pgm, whose programs are run as they are, with its own
`mbi`, but for the budget: rho is given, not (epsilon, delta). AIM's workload is all pairs of
columns, as its command's; MEGABYTES is its `max_model_size`, STEPS are those of mirror descent
after each round (1,000 in its own command). TABLE has codes below SIZES, a number
for each column with commas between. Prints the CPU seconds and the most memory in MiB.

Its inference is in JAX, which compiles anew for every clique, since commit 395885b. At the one
before it, 514dea3, it is in NumPy and takes a fraction of the time. That commit imports two
packages, autodp and hdmm, of which no more than an identity matrix is needed; they are stood in
for.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import re
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from scipy import sparse

folder, name, rho, seed, megabytes, steps, sizes, table, out = sys.argv[1:]
sys.path[:0] = [folder, f"{folder}/mechanisms", f"{folder}/src"]
in_numpy = Path(folder, "src", "mbi", "inference.py").exists()
if in_numpy:
    for stood_in in ("autodp", "hdmm", "hdmm.matrix"):
        sys.modules[stood_in] = ModuleType(stood_in)
    sys.modules["autodp"].privacy_calibrator = None  # type: ignore[attr-defined]
    sys.modules["hdmm.matrix"].Identity = lambda n: sparse.eye(n, format="csr")  # type: ignore[attr-defined]
mbi, mechanism = importlib.import_module("mbi"), importlib.import_module(name)
codes = pd.read_csv(table)
domain = mbi.Domain.fromdict(dict(zip(codes, map(int, sizes.split(",")), strict=True)))
data = mbi.Dataset(codes, domain)
# The peers draw from the global generator.
np.random.seed(int(seed))  # noqa: NPY002
began = time.process_time()
with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if name == "mst":
        mechanism.cdp_rho = lambda epsilon, delta: float(rho)
        synthetic = mechanism.MST(data, 1.0, 1e-9)
    else:
        limits = {"max_model_size": float(megabytes), "max_iters": int(steps)}
        aim = mechanism.AIM(1.0, 1e-9, np.random, **limits)
        aim.rho, aim.prng = float(rho), np.random
        pairs = [(pair, 1.0) for pair in itertools.combinations(domain.attrs, 2)]
        synthetic = aim.run(data, pairs)[1]
spent = time.process_time() - began
synthetic.df[list(codes)].to_csv(out, index=False)
# Not ru_maxrss, which begins with what the parent had.
peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
assert peak
print(spent, int(peak[1]) / 1024)
