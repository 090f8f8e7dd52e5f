"""How often an audit of each kind finds that its release has half the declared noise variance.

If a kind makes no choices, the answers of both worlds are learnt once, and each audit has new
noise. A kind with choices is fitted in every run. Its audits share a pool of runs, and an audit
has no run twice.

RECORD=1 python benchmarks/weak_audits.py [KIND ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from result_file import record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.audited_studies import audited_study
from kit.repeated_audits import found, known_answers, result
from kit.weak_noise import WeakNoise

import stream_dp
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.audit.audit import AuditResult, PreparedAudit
from stream_dp.study.families import Kind

AUDITS, RUNS = 100, 250  # and the runs of an audit in each world
POOL = 1500  # runs in each world that the audits of a kind with choices share
WEAK = WeakNoise(SystemNoise(), Fraction(1, 2))
RNG = np.random.default_rng(27)  # of the runs that an audit takes from a pool


def pooled(prepared: PreparedAudit) -> Callable[[], AuditResult]:
    """Audits of runs from a pool."""
    pool = prepared.audited.scores(prepared.pair, prepared.size, POOL, WEAK, lambda: None)

    def audit() -> AuditResult:
        rows = [RNG.choice(POOL, RUNS, replace=False) for _ in range(2)]
        drawn = pool._replace(first=pool.first[rows[0]], second=pool.second[rows[1]])
        return result(prepared, drawn)

    return audit


def measure(kind: Kind) -> None:
    study = stream_dp.parse_study(audited_study(kind))
    release = study.declared("answers")
    assert release is not None
    began = time.process_time()
    prepared = PreparedAudit.of(study, release)
    known = known_answers(prepared, WEAK)
    if known is None:
        audit, noise = pooled(prepared), f"from a pool of {POOL:,} runs"
    else:
        audit, noise = (lambda: known.audit(WEAK, RUNS)), "new"
    share = found(audit, AUDITS) / AUDITS
    seconds = time.process_time() - began
    print(f"{kind}: {share:.0%} of {AUDITS}, noise {noise}, {seconds:.0f} CPU s", flush=True)
    record("weak-audits", f"`{kind.value}`", noise, share, seconds)


if __name__ == "__main__":
    for kind in map(Kind, sys.argv[1:]) if sys.argv[1:] else Kind:
        measure(kind)
