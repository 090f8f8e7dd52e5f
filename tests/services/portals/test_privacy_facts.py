"""The guarantee as values: of a study without releases, and as its certificates state it."""

from __future__ import annotations

from fractions import Fraction

from kit.hostile import sound
from kit.public_logs import log_in_memory

from stream_dp.client import PublicLog
from stream_dp.privacy.zcdp import epsilon
from stream_dp.services.portals.description import privacy_facts


def test_the_facts_are_those_of_the_certificates() -> None:
    public = PublicLog(log_in_memory(sound()))
    certificates = [release.certificate for release in public.published]
    facts, last = privacy_facts(public.study, certificates), certificates[-1]
    assert (facts.rho_spent, facts.rho_total) == (last.rho_spent, last.rho_total)
    assert (facts.epsilon_spent, facts.epsilon_total) == (last.epsilon_spent, last.epsilon_total)
    assert (facts.guarantee, facts.invariants) == (last.guarantee, last.invariants)
    assert (facts.unit, facts.relation, facts.delta) == (last.unit, last.neighbours, last.delta)
    assert set(facts.mechanisms) == {one.mechanism for one in certificates}
    assert len(facts.not_protected) == 4
    assert facts.simulated == any("NOT PRIVATE" in one.noise for one in certificates)
    assert ("NOT PRIVATE" in facts.noise) == facts.simulated


def test_nothing_is_spent_before_the_first_release() -> None:
    study = PublicLog(log_in_memory(sound())).study
    facts = privacy_facts(study, [])
    assert (facts.rho_spent, facts.epsilon_spent, facts.mechanisms) == (Fraction(0), "0", ())
    assert Fraction(facts.epsilon_total) == Fraction(epsilon(study.rho, study.delta))
    assert not facts.simulated
