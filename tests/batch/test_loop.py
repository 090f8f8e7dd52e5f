"""Adaptive measurements: decided once, replayed, never measured twice."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest
from kit import small_groups
from kit.small_groups import Never, Silent, Still

from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.rounds.adaptive_fit import AdaptiveMethod, fit_adaptively
from stream_dp.batch.synthesizer import FORMAT, FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise, SystemNoise

TRUTH = small_groups.hierarchy()
PLAN = AdaptivePlan(Fraction(3, 7), 4, 2)


def go(source, transcript=None, work=None, plan=PLAN, truth=TRUTH, reports=None):
    def progress(*line):
        if reports is not None:
            reports.append(line)

    transcript = MemoryTranscript() if transcript is None else transcript
    work = work or small_groups.workload()
    method = AdaptiveMethod.of("t", work, plan.phases(work), lambda seed: Still(truth, seed))
    return fit_adaptively(truth, method, FitContext(source, transcript, progress))


@pytest.mark.parametrize("opening", [True, False])
def test_every_candidate_is_measured_once_at_most(opening):
    work = small_groups.workload(opening)
    fitted = go(SeededNoise(3), work=work)
    flat = [i for round_ in fitted.picked for i in round_]
    assert len(set(flat)) == len(flat)
    assert len(set(fitted.answers.rows.tolist())) == len(fitted.answers.rows)
    free = sum(not squared for squared in work.squared[work.opening :])
    assert [len(round_) for round_ in fitted.picked] == [work.opening + free] * opening + [2] * 4
    assert flat[: work.opening] == list(range(work.opening))
    sizes = np.diff(work.starts)[flat]
    assert fitted.answers.ends == tuple(np.cumsum(sizes))
    assert fitted.notes["measured"] == len(flat)


def test_answers_are_the_true_counts_and_their_noise():
    work = small_groups.workload()
    fitted, noisy = go(Silent(), work=work), go(SeededNoise(1), work=work)
    true = exact_answers(TRUTH, work.queries)
    assert (fitted.answers.values == true[fitted.answers.rows]).all()
    apart = noisy.answers.values - true[noisy.answers.rows]
    assert apart.any()
    assert (abs(apart) < 8 * np.sqrt(noisy.answers.noise)).all()
    measurements = fitted.measurements
    assert len(measurements.queries) == len(measurements.values) == len(measurements.variances)
    assert measurements.queries[0] == "groups: region=n"
    assert measurements.values[0] == (TRUTH.groups[:, 0] == 0).sum()
    assert all(isinstance(v, Fraction) for v in measurements.variances)


def test_what_is_picked_is_what_the_model_answers_worst():
    source, work = Silent(), small_groups.workload(opening=False)
    fitted = go(source, work=work, plan=AdaptivePlan(Fraction(10**6), 1, 1))
    true = exact_answers(TRUTH, work.queries)
    wrong = np.abs(true - np.rint(fitted.model.answers(np.arange(len(true)))))
    sums = np.add.reduceat(wrong, work.starts[:-1])
    charged = np.flatnonzero(work.squared)
    assert (source.scores[0] == sums[charged]).all()  # the noise at this rho is none
    assert fitted.picked == ((int(charged[sums[charged].argmax()]),),)


def test_a_simulation_repeats_itself():
    first, again, other = MemoryTranscript(), MemoryTranscript(), MemoryTranscript()
    go(SeededNoise(5), first)
    go(SeededNoise(5), again)
    go(SeededNoise(6), other)
    assert first.recorded == again.recorded
    assert all(a != b for a, b in zip(first.recorded, other.recorded, strict=True))


def test_after_any_round_a_replay_is_the_same():
    complete = MemoryTranscript()
    fitted = go(SystemNoise(), complete)

    class Rest(MemoryTranscript):
        """Further rounds are what another recorded."""

        def record(self, number, data):
            self.recorded.append(complete.recorded[number])
            return self.recorded[number]

    for known in range(len(complete.recorded) + 1):
        transcript = Rest(complete.recorded[:known])
        source = Never() if known == len(complete.recorded) else SystemNoise()
        again = go(source, transcript)
        assert transcript.recorded == complete.recorded
        assert again.model == fitted.model
        assert again.picked == fitted.picked
        assert (again.measurements.values == fitted.measurements.values).all()


def test_a_twin_goes_on_from_what_the_first_recorded():
    winner = MemoryTranscript()
    fitted = go(SystemNoise(), winner)

    class Second(MemoryTranscript):
        def rounds(self):
            return []

        def record(self, number, data):
            assert data not in winner.recorded
            return winner.recorded[number]

    adopted = go(SystemNoise(), Second())
    assert adopted.model == fitted.model
    assert adopted.picked == fitted.picked


def test_a_round_is_recorded_before_the_model_hears_of_it():
    order = []

    class Noting(MemoryTranscript):
        def record(self, number, data):
            order.append(("recorded", number))
            return super().record(number, data)

    class Hearing(Still):
        def learn(self, measured):
            order.append(("heard", len(measured.ends)))
            return self, 0.0

    work = small_groups.workload()
    method = AdaptiveMethod.of("t", work, PLAN.phases(work), lambda seed: Hearing(TRUTH, seed))
    context = FitContext(
        SeededNoise(1), Noting(), lambda done, rounds, error: order.append(("progress", done))
    )
    fit_adaptively(TRUTH, method, context)
    expected = [("recorded", 0)]
    for number, heard in enumerate([6, 8, 10, 12, 14], 1):
        expected += [("recorded", number), ("heard", heard), ("progress", number)]
    assert order == expected


def test_progress_may_end_a_fit_and_the_transcript_carries_on():
    class Enough(Exception):
        pass

    def stop(done, rounds, error):
        if done == 2:
            raise Enough

    transcript = MemoryTranscript()
    work = small_groups.workload()
    method = AdaptiveMethod.of("t", work, PLAN.phases(work), lambda seed: Still(TRUTH, seed))
    with pytest.raises(Enough):
        fit_adaptively(TRUTH, method, FitContext(SeededNoise(1), transcript, stop))
    assert len(transcript.recorded) == 3
    reports = []
    fitted = go(SeededNoise(2), transcript, reports=reports)
    assert [t[:2] for t in reports] == [(n, 5) for n in range(1, 6)]
    assert len(fitted.picked) == 5


def test_fewer_candidates_than_picks_are_all_measured():
    work = small_groups.workload()
    charged = sum(squared > 0 for squared in work.squared[work.opening :])
    fitted = go(SeededNoise(1), work=work, plan=AdaptivePlan(Fraction(1), 1000, 1))
    assert sorted(i for r in fitted.picked for i in r) == list(range(work.candidates))
    assert len(fitted.picked) == charged + 1
    fitted = go(SeededNoise(1), work=work, plan=AdaptivePlan(Fraction(1), 3, 10**6))
    assert sorted(i for r in fitted.picked for i in r) == list(range(work.candidates))


@pytest.mark.parametrize(
    "round_",
    [
        b"",
        b"not a round",
        msgspec.msgpack.encode(([], b"")),
        msgspec.msgpack.encode(([0], b"\0" * 8)),
        msgspec.msgpack.encode(([10**6], b"")),
        msgspec.msgpack.encode(([-1], b"\0" * 8)),
        msgspec.msgpack.encode(([0, 0], b"\0" * 32)),
        msgspec.msgpack.encode(([5, 5], b"\0" * 32)),
        msgspec.msgpack.encode(([5], b"\0" * 32)),
    ],
)
@pytest.mark.parametrize("opening", [True, False])
def test_rounds_of_something_else_are_refused(round_, opening):
    with pytest.raises(UserError, match="transcript"):
        go(
            Never(),
            MemoryTranscript([bytes(32) + FORMAT, round_]),
            small_groups.workload(opening=opening),
        )
