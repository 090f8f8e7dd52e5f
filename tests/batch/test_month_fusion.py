"""Months of one schedule: earlier tables sharpen later ones, also where a fit goes on."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from people_tables import domain, paired

from stream_dp.batch.people.people_plan import people_plan
from stream_dp.batch.people.people_synthesizer import fit_match, fit_people
from stream_dp.batch.people.residual_counts import Residuals, marginal_counts
from stream_dp.batch.people.target_shares import Interaction, Month, Targets, fused, past_months
from stream_dp.batch.rounds.adaptive_fit import recorded_answers
from stream_dp.batch.synthesizer import EarlierTable, FitContext, MemoryTranscript, begun_rounds
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease, PeopleRelease

PEOPLE = paired(n=6000, values=6)
RHO = Fraction(1, 250)
CASES = {
    "all pairs": (fit_people, PeopleRelease, {"kind": "mixture"}),
    "rounds": (fit_people, PeopleRelease, {"kind": "mixture", "rounds": 3}),
    "match": (fit_match, MatchRelease, {"kind": "match"}),
}


def declared(case):
    _, release, keys = CASES[case]
    names = tuple(column.name for column in PEOPLE.domain.columns)
    return release(name="p", attributes=names, rho=RHO, every=1, **keys)


def fitted(case, number, earlier=(), transcript=None):
    transcript = MemoryTranscript() if transcript is None else transcript
    context = FitContext(SeededNoise(number), transcript, number=number, earlier=tuple(earlier))
    return CASES[case][0](PEOPLE, declared(case), context), transcript


def tables(case, months):
    """What a release measured in some months."""
    return list(_tables(case, tuple(months)))


@cache
def _tables(case, months):
    if not months:
        return ()
    *before, number = months
    earlier = _tables(case, tuple(before))
    _, transcript = fitted(case, number, earlier)
    return (*earlier, EarlierTable(number, declared(case), tuple(transcript.recorded)))


def variation(people):
    sets = [*combinations(range(4), 2)]
    apart = (marginal_counts(PEOPLE, a) - marginal_counts(people, a) for a in sets)
    return np.mean([np.abs(cells).sum() for cells in apart]) / 2 / PEOPLE.N


@pytest.mark.parametrize("case", CASES)
def test_earlier_months_lessen_the_error(case):
    number, earlier = 16, tables(case, range(1, 4))
    alone = variation(fitted(case, number)[0].sample(1))
    sharper = variation(fitted(case, number, earlier)[0].sample(1))
    assert sharper < 0.85 * alone


@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_goes_on_uses_the_months_that_it_began_with(case):
    earlier = tables(case, range(1, 4))
    fit, transcript = fitted(case, 4, earlier[:2])
    again, _ = fitted(case, 4, earlier, MemoryTranscript([*transcript.recorded]))
    assert (again.sample(1).codes == fit.sample(1).codes).all()


@pytest.mark.parametrize("case", ["all pairs", "match"])
def test_a_fit_that_goes_on_refuses_other_months(case):
    earlier = tables(case, range(1, 3))
    begun = MemoryTranscript(fitted(case, 3, earlier)[1].recorded[:1])
    other = replace(earlier[1], rounds=(*earlier[1].rounds[:-1], b"x"))
    for wrong in (earlier[:1], [earlier[0], other], []):
        with pytest.raises(UserError, match="began with earlier data sets"):
            fitted(case, 3, wrong, begun)


def test_round_0_states_the_earlier_months():
    earlier = tables("all pairs", [1, 3])
    context = FitContext(SeededNoise(1), number=4, earlier=tuple(earlier))
    first, alone = begun_rounds(context)[0], begun_rounds(FitContext(SeededNoise(1)))[0]
    assert first.startswith(alone)
    assert all(table.digest in first for table in earlier)


def test_recorded_answers_are_those_of_the_fit():
    release = declared("rounds")
    fit, transcript = fitted("rounds", 1)
    plan = people_plan(PEOPLE.domain, release)
    answers, rounds = recorded_answers(plan.workload, plan.phase, transcript.recorded)
    assert rounds == len(fit.picked)
    assert answers.candidates == fit.answers.candidates
    assert answers.variances == fit.answers.variances
    assert (answers.values == fit.answers.values).all()
    with pytest.raises(UserError, match="not of what its release declares"):
        recorded_answers(plan.workload, plan.phase, transcript.recorded[:-1])


def month(number, columns, *sets, value=1.0):
    sizes = [len(column.values) for column in columns]
    values = {a: np.full([sizes[c] for c in a], value) for a in sets}
    return Month(number, columns, {a: Interaction(v, 1e-6) for a, v in values.items()})


def test_a_set_that_this_month_did_not_measure_keeps_its_level():
    of = domain(2, 3, 4)
    months = [month(n, of.columns, (0,), (1,), (0, 1)) for n in (1, 2)]
    past = past_months(months, of.columns, 5)
    own = month(5, of.columns, (0,), (1,)).interactions
    interactions = fused(Targets(Residuals(of, ()), 100, own), past).interactions
    assert [*interactions] == [(0,), (1,), (0, 1)]
    assert interactions[0, 1].values == pytest.approx(1, abs=1e-3)
    assert interactions[0, 1].variance > interactions[0,].variance


def test_a_column_with_other_values_begins_anew():
    old, new = domain(2, 3, 4), domain(2, 2, 4)
    earlier = month(1, old.columns, (0,), (1,), (2,), (0, 1), (0, 2))
    past = past_months([earlier], new.columns, 2)
    assert {*past.filters} == {(0,), (2,), (0, 2)}
    assert past_months([earlier], domain(5, 5).columns, 2) is None
    assert past_months([], old.columns, 1) is None


def test_picked_pairs_of_earlier_months_stay_in_the_model():
    earlier = tables("rounds", [1])
    first, _ = fitted("rounds", 1)
    picked = {a for a in (first.workload.sets[i] for i in first.answers.candidates) if len(a) == 2}
    release = declared("rounds").model_copy(update={"rounds": 1, "per_round": 1})
    context = FitContext(SeededNoise(2), MemoryTranscript(), number=2, earlier=tuple(earlier))
    second = fit_people(PEOPLE, release, context)
    assert len(second.picked[-1]) == 1
    strong = {(0, 1), (2, 3)} & picked
    assert strong
    assert all(any({*a} <= {*c} for c in second.model.tree.cliques) for a in strong)


def test_a_note_names_the_columns_that_begin_anew():
    release = declared("match")
    many = release.model_copy(update={"threshold": Fraction(40)})
    _, transcript = fitted("match", 1)
    earlier = EarlierTable(1, release, tuple(transcript.recorded))
    context = FitContext(SeededNoise(2), MemoryTranscript(), number=2, earlier=(earlier,))
    fit = fit_match(PEOPLE, many, context)
    columns = zip(PEOPLE.domain.columns, fit.compression.columns, strict=True)
    merged = [column.name for column, values in columns if values.merged]
    assert merged
    assert fit.notes["begun_anew"] == ", ".join(merged)
    alike = fit_match(PEOPLE, release, replace(context, transcript=MemoryTranscript()))
    assert "begun_anew" not in alike.notes
