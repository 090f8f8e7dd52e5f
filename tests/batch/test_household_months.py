"""Data sets of households of one schedule: earlier ones sharpen later ones, at the same cost."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from kit import small_groups
from kit.small_groups import Never

from stream_dp.answers.month_filters import Measured, MonthFilters
from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.hpd import hpd_synthesizer
from stream_dp.batch.groups.hpd.adam import AdamSettings
from stream_dp.batch.groups.workload.candidates import declared_workload
from stream_dp.batch.groups.workload.combined_months import (
    after_month,
    earlier_months,
    measured_shares,
)
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.rounds.adaptive_fit import following_phases, recorded_answers
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import EarlierTable, FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.group_releases import BatchRelease

pytest.importorskip("jax")
TRUTH = small_groups.hierarchy(groups=2000)
MONTHS = 5


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(hpd_synthesizer, "ROWS", 20)
    monkeypatch.setattr(hpd_synthesizer, "UPDATES", AdamSettings(30, 0.1))
    monkeypatch.setattr(hpd_synthesizer, "FIRST_UPDATES", 60)


def declared(kind="hpd-fixed", **more):
    facts = {"rho": Fraction(1, 200), "every": 1, "rounds": 2, "ways": 2, "rows": 20, **more}
    return BatchRelease(name="r", kind=kind, attributes=("a", "b"), **facts)


def fitted(number, earlier=(), transcript=None, source=None, truth=TRUTH, **more):
    transcript = MemoryTranscript() if transcript is None else transcript
    source = SeededNoise(number) if source is None else source
    context = FitContext(source, transcript, number=number, earlier=tuple(earlier))
    release = declared(**more)
    return kinds.load_synthesizer(release.kind)(truth, release, context), transcript


@cache
def tables(months):
    """What a release measured in so many months."""
    if not months:
        return ()
    earlier = tables(months - 1)
    _, transcript = fitted(months, earlier)
    return (*earlier, EarlierTable(months, declared(), tuple(transcript.recorded)))


def missed(data, queries):
    """The root mean square error of shares."""
    true, synthetic = exact_answers(TRUTH, queries), exact_answers(data, queries)
    return float(np.sqrt(np.square(synthetic / data.G - true / TRUTH.G).mean()))


def test_a_later_month_is_nearer_to_the_truth():
    errors = {"alone": 0.0, "combined": 0.0}
    for number in (MONTHS, MONTHS + 1, MONTHS + 2):
        for name, earlier in {"alone": (), "combined": tables(MONTHS - 1)}.items():
            fit, _ = fitted(number, earlier)
            errors[name] += missed(fit.sample(1), fit.workload.queries)
    assert errors["combined"] < 0.8 * errors["alone"]


def test_marginals_of_all_months_are_combined_and_learnt():
    fit, transcript = fitted(MONTHS, tables(MONTHS - 1))
    known = fit.model.earlier
    assert {table.number for table in tables(MONTHS - 1)} == {*range(1, MONTHS)}
    rows, values, variances = known.combined(fit.answers)
    assert {*rows.tolist()} > {*fit.answers.rows.tolist()}
    assert len({*rows.tolist()}) == len(rows)
    # Nothing has changed, and so the answers are more precise than the month's own, and true.
    position = {row: i for i, row in enumerate(rows.tolist())}
    here = [position[row] for row in fit.answers.rows.tolist()]
    assert (variances[here] < fit.answers.noise).mean() > 0.9
    true = exact_answers(TRUTH, fit.workload.queries)
    apart, alone = values - true[rows], fit.answers.values - true[fit.answers.rows]
    assert np.square(apart[here]).mean() < 0.6 * np.square(alone).mean()
    assert np.square(apart / np.sqrt(variances)).mean() < 3
    before = known.combined(NoisyAnswers.none())
    assert known.cells >= len(before.rows)
    assert transcript.recorded[0] != fitted(MONTHS)[1].recorded[0]


def test_noise_and_charges_are_those_of_a_data_set_alone():
    workload = declared_workload(TRUTH.domain, declared())
    plan = AdaptivePlan.of(declared()).phases(workload)
    combined, transcript = fitted(MONTHS, tables(MONTHS - 1))
    alone, _ = recorded_answers(workload, following_phases(workload, plan), transcript.recorded)
    assert alone.candidates == combined.answers.candidates
    assert alone.variances == combined.answers.variances
    assert (alone.values == combined.answers.values).all()
    spent = workload.filter_after(plan, combined.answers).spent
    assert spent <= declared().rho
    assert [*combined.measurements.variances] == [*alone.variances]


def test_it_goes_on_from_its_transcript_and_draws_nothing_again():
    first, transcript = fitted(MONTHS, tables(MONTHS - 1))
    for kept in (1, 3, len(transcript.recorded)):
        again = MemoryTranscript(transcript.recorded[:kept])
        source = Never() if kept == len(transcript.recorded) else None
        second, _ = fitted(MONTHS, tables(MONTHS - 1), again, source)
        assert again.recorded[0] == transcript.recorded[0]
        if source is not None:
            assert again.recorded == transcript.recorded
            assert (second.sample(3).people == first.sample(3).people).all()
            assert (second.sample(3).groups == first.sample(3).groups).all()
    # More months than it began with change nothing; fewer are refused.
    more, _ = fitted(MONTHS, (*tables(MONTHS - 1), *tables(MONTHS)[-1:]), transcript, Never())
    assert (more.sample(3).people == first.sample(3).people).all()
    with pytest.raises(UserError, match="earlier data sets whose transcripts are not there"):
        fitted(MONTHS, tables(MONTHS - 2), transcript, Never())


def test_nothing_but_the_transcripts_decides_what_is_published():
    first, transcript = fitted(2, tables(1))
    people = TRUTH.people.copy()
    people[0] = (people[0] + 1) % TRUTH.domain.person_values
    other = Hierarchy(TRUTH.domain, TRUTH.groups, people, TRUTH.group_of)
    second, _ = fitted(2, tables(1), transcript, Never(), other)
    assert (second.sample(3).people == first.sample(3).people).all()
    assert (second.sample(3).groups == first.sample(3).groups).all()
    assert second.notes == first.notes


def test_without_earlier_months_and_without_fusion_nothing_changes():
    alone, first = fitted(1, fuse=False)
    usual, second = fitted(1)
    assert first.recorded == second.recorded
    assert (alone.sample(3).people == usual.sample(3).people).all()
    deaf, _ = fitted(MONTHS, tables(MONTHS - 1), fuse=False)
    assert deaf.model.earlier is None


def test_a_network_learns_from_earlier_months_as_well():
    fit, _ = fitted(2, tables(1), kind="hpd-gen", rounds=1)
    assert fit.model.earlier.filters.number == 2


def test_a_marginal_is_followed_by_its_level_and_columns():
    workload = declared_workload(TRUTH.domain, declared())
    fit, _ = fitted(1)
    totals = np.ones(workload.candidates)
    assert len(measured_shares(workload, totals, fit.answers)) == len({*fit.answers.candidates})
    assert earlier_months(workload, TRUTH, FitContext(SeededNoise(1))) is None


def test_a_shock_to_most_marginals_of_a_column_widens_the_others():
    def measured(month, places, shift=0.0):
        rng = np.random.default_rng(month)
        noisy = {
            p: 0.25 + 0.001 * rng.normal(size=4) + shift * np.array([1, -1, 1, -1]) for p in places
        }
        return {place: Measured(values, 1e-6) for place, values in noisy.items()}

    every = [(-1, 0), (-1, 1), (-1, 0, 1), (-2, 2), (-2, 3)]
    filters = MonthFilters(1)
    for month in range(1, 5):
        filters = after_month(filters.at(month), measured(month, every))
    seen = [(-1, 0), (-1, 1), (-2, 2)]
    calm = after_month(filters.at(5), measured(5, seen))
    shock = after_month(filters.at(5), measured(5, seen[2:]) | measured(5, seen[:2], 0.05))
    variance = {
        name: {place: float(each.posterior(place)[1].mean()) for place in every}
        for name, each in {"calm": calm, "shock": shock}.items()
    }
    assert variance["shock"][-1, 0, 1] > 0.01**2 > 10 * variance["calm"][-1, 0, 1]
    assert variance["shock"][-2, 3] < 0.001**2
    alike = after_month(filters.at(5), measured(5, every))
    assert alike.filters.keys() == filters.learnt(measured(5, every)).filters.keys()
    for place in every:  # all are measured: nothing is widened
        learnt = filters.at(5).learnt(measured(5, every))
        assert (alike.posterior(place)[1] == learnt.posterior(place)[1]).all()
