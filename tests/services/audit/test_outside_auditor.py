"""An auditor of another project, jax_privacy's, judges the scores of three mechanisms.

It knows nothing of zCDP: from scores in both worlds it bounds the eps at a delta from below, by
frequencies alone (Jagielski et al. 2020). The charge promises an eps at the same delta.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from jax_privacy.auditing import CanaryScoreAuditor
from kit.audited_studies import audited_study
from kit.repeated_audits import KnownAnswers, known_answers
from kit.weak_noise import WeakNoise

import stream_dp
from stream_dp.privacy.noise import NoiseSource, SeededNoise
from stream_dp.privacy.zcdp import epsilon
from stream_dp.services.audit.audit import PreparedAudit
from stream_dp.services.audit.histories import WorstPair
from stream_dp.services.audit.study_runs import runs_of
from stream_dp.study.families import Kind

RUNS, DELTA, ERROR = 20_000, Fraction(1, 100), 1e-4


@cache
def answers_of(kind: Kind) -> KnownAnswers:
    """The answers of one person. The worst pair of these panels says yes always, or never."""
    study = stream_dp.parse_study(audited_study(kind))
    release = study.declared("answers")
    assert release is not None
    if kind == Kind.INDEPENDENT:
        prepared = replace(PreparedAudit.of(study, release), size=1)
    else:
        pair = WorstPair((1, 1), (0, 0), 0.5)
        prepared = PreparedAudit(study, release, runs_of(study, release), pair, 1)
    known = known_answers(prepared, SeededNoise(0))
    assert known is not None
    return known


def least_epsilon(known: KnownAnswers, source: NoiseSource) -> float:
    """The bound of the outside auditor. A high score speaks for the second world."""
    scores = known.audit(source, RUNS).scores
    return CanaryScoreAuditor(scores.second, scores.first).epsilon_clopper_pearson(
        ERROR, float(DELTA)
    )


@pytest.mark.parametrize(
    "kind",
    [Kind.WINDOW, Kind.CUMULATIVE, pytest.param(Kind.INDEPENDENT, marks=pytest.mark.slow)],
)
def test_an_outside_auditor_finds_the_charge_and_too_little_noise(kind: Kind) -> None:
    known = answers_of(kind)
    promised = float(epsilon(known.prepared.audited.rho, DELTA))
    assert 0.5 * promised < least_epsilon(known, SeededNoise(1)) <= promised
    assert least_epsilon(known, WeakNoise(SeededNoise(2), Fraction(1, 4))) > promised
