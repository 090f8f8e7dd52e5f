"""The share of a study's rho that an audit of all its releases together shows, and its CPU time.

Each study has one kind of release and a gate. Data sets have a second month, which learns from the
first if the kind is fused. One study has two panels, tables and a gate.

RECORD=1 python benchmarks/study_audits.py [KIND ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from result_file import record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.audited_studies import gated_study, mixed_study

import stream_dp
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.audit.audit import RUNS, PreparedAudit
from stream_dp.study.families import Kind

MIXED = "two panels, tables"


def measure(name: str, tables: dict[str, Any]) -> None:
    began = time.process_time()
    result = PreparedAudit.of(stream_dp.parse_study(tables)).run(SystemNoise(), RUNS)
    seconds = time.process_time() - began
    rho = float(result.rho)
    cells = result.pair_rho / rho, result.lower_bound / rho, result.counted_bound / rho, seconds
    print(name, *(f"{cell:.3f}" for cell in cells), flush=True)
    record("study-audits", name, *cells)


if __name__ == "__main__":
    for word in sys.argv[1:] or [*Kind, MIXED]:
        if word == MIXED:
            measure(MIXED, mixed_study())
        elif word != Kind.SIZES:
            measure(f"`{word}`", gated_study(Kind(word)))
