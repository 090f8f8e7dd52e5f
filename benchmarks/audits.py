"""The share of its declared rho that an audit of each kind of release shows, and its CPU time.

RECORD=1 python benchmarks/audits.py [KIND ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from result_file import record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.audited_studies import audited_study

import stream_dp
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.audit.audit import RUNS, PreparedAudit
from stream_dp.study.families import Kind


def measure(kind: Kind) -> None:
    study = stream_dp.parse_study(audited_study(kind))
    release = study.declared("answers")
    assert release is not None
    began = time.process_time()
    result = PreparedAudit.of(study, release).run(SystemNoise(), RUNS)
    seconds = time.process_time() - began
    rho = float(result.rho)
    cells = (
        result.pair_rho / rho,
        result.lower_bound / rho,
        result.lower_bound / result.pair_rho,
        result.counted_bound / rho,
        seconds,
    )
    print(kind, *(f"{cell:.3f}" for cell in cells), flush=True)
    record("audits", f"`{kind.value}`", *cells)


if __name__ == "__main__":
    for kind in map(Kind, sys.argv[1:]) if sys.argv[1:] else Kind:
        measure(kind)
