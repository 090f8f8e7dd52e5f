"""Independent attributes: what they cost, what they answer, what is repeated."""

from fractions import Fraction

import numpy as np
import pytest

from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.independent import fit_independent
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import Draw, SystemNoise
from stream_dp.study.group_releases import BatchRelease

DOMAIN = Domain(
    (Column("region", ("n", "s")),), (Column("a", (0, 1, 2)), Column("b", ("x", "y"))), 3
)
RHO = Fraction(1, 7)
RELEASE = BatchRelease(name="r", kind="independent", attributes=("a", "b"), rho=RHO, every=1)


def hierarchy(seed=0, groups=400):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, groups)
    group_codes = np.stack([rng.integers(2, size=groups), sizes - 1], axis=1)
    people = np.stack(
        [rng.integers(3, size=sizes.sum()), rng.integers(2, size=sizes.sum())], axis=1
    )
    return Hierarchy(DOMAIN, group_codes, people, np.repeat(np.arange(groups), sizes))


class Silent:
    simulated = True

    def __init__(self):
        self.variances = set()

    def draw(self, demand):
        self.variances |= {variance for variance, _ in demand}
        return Draw(tuple(np.zeros(n, np.int64) for _, n in demand), np.random.default_rng(0))


def answers(data, source=None, transcript=None):
    reports = []
    context = FitContext(
        source or Silent(), transcript or MemoryTranscript(), lambda *x: reports.append(x)
    )
    fitted = fit_independent(data, RELEASE, context)
    assert reports[0][:2] == (1, 1)
    return fitted


def test_any_change_of_one_person_costs_rho_and_no_more():
    """All pairs of values of one person, brute force, with the noise that was drawn: the largest
    is what is charged.
    """
    base, source, worst = hierarchy(groups=3), Silent(), 0
    values = answers(base, source).measurements.values
    (variance,) = source.variances
    for a in range(3):
        for b in range(2):
            people = base.people.copy()
            people[1] = a, b
            other = Hierarchy(DOMAIN, base.groups, people, base.group_of)
            change = values - answers(other).measurements.values
            worst = max(worst, int((change**2).sum()))
    assert worst / (2 * variance) == RHO


def test_without_noise_answers_are_true_and_samples_are_near():
    data = hierarchy()
    fitted = answers(data)
    value_by_query = dict(
        zip(fitted.measurements.queries, fitted.measurements.values.tolist(), strict=True)
    )
    assert value_by_query["people: b=x"] == (data.people[:, 1] == 0).sum()
    assert value_by_query["groups: size=3"] == (data.groups[:, 1] == 2).sum()
    sample = fitted.sample(1)
    assert sample.G == data.G
    assert abs((sample.people[:, 1] == 0).mean() - (data.people[:, 1] == 0).mean()) < 0.1


def test_a_transcript_is_replayed_and_gives_the_same():
    transcript = MemoryTranscript()
    first = answers(hierarchy(), SystemNoise(), transcript)

    class Never:
        simulated = False

        def draw(self, demand):
            raise AssertionError("a round was drawn again")

    again = answers(hierarchy(), Never(), transcript)
    assert (first.measurements.values == again.measurements.values).all()
    assert (first.sample(5).people == again.sample(5).people).all()


def test_what_another_recorded_first_holds():
    winner = MemoryTranscript()
    answers(hierarchy(), Silent(), winner)

    class Second(MemoryTranscript):
        """Nothing was there when it was asked, and all of it when it recorded."""

        def rounds(self):
            return []

        def record(self, number, data):
            return winner.recorded[number]

    adopted = answers(hierarchy(), SystemNoise(), Second())
    assert (adopted.measurements.values == answers(hierarchy()).measurements.values).all()


@pytest.mark.parametrize("counts", [-5, 0])
def test_counts_below_zero_leave_something_to_sample(counts):
    class Low:
        simulated = True

        def draw(self, demand):
            noise = tuple(np.full(n, counts - 10_000) for _, n in demand)
            return Draw(noise, np.random.default_rng(0))

    fitted = answers(hierarchy(), Low())
    assert fitted.notes["negative_counts"] == len(fitted.measurements.values)
    assert fitted.sample(0).G == 400
