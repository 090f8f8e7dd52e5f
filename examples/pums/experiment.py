"""The experiment of Liu and Wu (arXiv 2206.05942) on the ACS, with one command:

    python experiment.py psam_h06.csv psam_p06.csv OUT [REPETITIONS]

Makes the tables of tables.py in the folder OUT, then fits HPD-Fixed at eps .1, .25, .5 and 1
(delta = 1 / N^2) with simulated noise, and prints the largest and mean errors of all queries about
three attributes, among households, people and relatives, beside independent attributes and every
query measured. Figures, a table and JSON are in OUT/errors. Needs JAX: pip install
'../..[batch]'. CONFIDENTIAL like the files: errors follow from true answers.
README.md says how long it takes, and how to try it without the files.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

from tables import refuse

from stream_dp.privacy.zcdp import rho_within
from stream_dp.services.commands.cli import main

EPSILONS = ("0.1", "0.25", "0.5", "1")
RELEASE = """
[[releases]]
name = "hpd-fixed"
kind = "hpd-fixed"
attributes = ["age", "sex", "work"]
every = 1
share = 1
"""


def study_text(pums: str) -> tuple[str, list[str]]:
    """The study at eps 1, and the scales of rho that give the other eps."""
    size = re.search(r"(?m)^size = (\d+)", pums)
    assert size is not None  # tables.py fills it in
    delta = Fraction(1, int(size[1]) ** 2)
    rhos = [rho_within(Fraction(e), delta) for e in EPSILONS]
    before, _, after = pums.partition("[[releases]]")
    text = re.sub(r"(?m)^rho = .*$", f'rho = "{rhos[-1]}"', before, count=1)
    run = after[after.index("[run]") :].replace("pums", "experiment")
    return f"{text}{RELEASE}\n{run}", [str(rho / rhos[-1]) for rho in rhos]


def experiment(housing: str, people: str, out: str, repetitions: str = "1") -> int:
    """Makes the tables and judges the release on them; the exit code."""
    if not (repetitions.isdecimal() and int(repetitions)):
        refuse(f"REPETITIONS is '{repetitions}': give a whole number from 1 on")
    if lacking := [name for name in ("jax", "optax") if find_spec(name) is None]:
        refuse(f"not installed: {', '.join(lacking)}; pip install '../..[batch]'")
    folder = Path(out)
    tables = [sys.executable, str(Path(__file__).with_name("tables.py")), housing, people, out]
    if code := subprocess.run(tables, check=False).returncode:
        return code
    text, scales = study_text((folder / "pums.toml").read_text("utf-8"))
    (folder / "experiment.toml").write_text(text, "utf-8")
    arguments = ["evaluate", str(folder / "experiment.toml"), str(folder / "reports.csv")]
    for option, value in {
        "--groups": str(folder / "groups.csv"),
        "--members": str(folder / "members.csv"),
        "--group": "household",
        "--scales": ",".join(scales),
        "--repetitions": repetitions,
        "--out": str(folder / "errors"),
    }.items():
        arguments += [option, value]
    began, cpu = time.monotonic(), time.process_time()
    code = main(arguments)
    if code:
        return code
    print(f"in {time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} s of CPU")
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in {4, 5}:
        refuse("usage: experiment.py psam_h06.csv psam_p06.csv OUT [REPETITIONS]")
    sys.exit(experiment(*sys.argv[1:]))
