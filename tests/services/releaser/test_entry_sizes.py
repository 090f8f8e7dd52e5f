"""The size of a journal entry in a long study."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from kit.studies import attribute, cumulative, small_study

from stream_dp.continual.mechanism_interface import NONE
from stream_dp.log.log import TopicInfo
from stream_dp.planning.plan import Plan
from stream_dp.population.cells import CellCounts
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.releaser.decision import ChainEnd, ReleaseState, decide, draw_noise
from stream_dp.services.releaser.recovery import genesis
from stream_dp.services.storage.job_records import SnapshotFile
from stream_dp.services.storage.journal import ClosedPeriod, Entry, journal_records
from stream_dp.services.storage.journal_heads import PeriodInput

PERIODS, PEOPLE = 500, 1000


@dataclass(frozen=True)
class Closed:
    counts: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def plan():
    return Plan(
        small_study(
            name="long",
            neighbours="add_remove",
            size=None,
            periods={"first": 1, "every": "step", "count": PERIODS},
            attributes={"work": attribute([0, 1], missing=0)},
            releases=[cumulative("totals", "work", [1], rows=PEOPLE, rho="1/200")],
        ),
        stored={"totals": NONE},
    )


def long_state(mechanism, period, rng):
    """The state after a period, with numbers as large as those of 1,000 people."""
    first = mechanism.init()
    totals = rng.integers(0, period + 1, PEOPLE)
    return replace(
        first,
        period=period,
        streams=rng.integers(0, 20, first.streams.shape),
        known=rng.normal(2, 20, first.known.shape),
        sums=np.array([(totals >= b).sum() for b in range(PERIODS + 1)]),
        totals=totals,
    )


@pytest.mark.parametrize("period", [250, PERIODS])
def test_a_close_adds_at_most_20_kb(plan, period):
    """Entries grow with the period, so the last is the largest; 28 kB in an earlier form."""
    study, (release,) = plan.study, plan.study.releases
    rng, mechanism = np.random.default_rng(1), plan.mechanisms["totals"]
    topic = TopicInfo("x" * 32, 1, {0: 0})
    begin = Entry(genesis(study, {}, b"", topic, b"k" * 32, True, places={}))
    state = ReleaseState(release, mechanism, long_state(mechanism, period - 1, rng))
    counts = {"totals": rng.integers(0, 20, PERIODS + 1)}
    read = PeriodInput({0: 5}, {0: period}, {}, CellCounts())
    closed = ClosedPeriod(period, read, Closed(counts), SnapshotFile("a" * 40, "b" * 64))
    draws = draw_noise(study, SeededNoise(1), [state], period)
    end, _ = decide(
        plan,
        ChainEnd.of(plan, [begin]),
        [state],
        draws=draws,
        closed=closed,
        simulated=True,
    )
    records = journal_records(end.entry.message, study)
    size = sum(len(record.value) for record in records)
    assert 5_000 < size < 20_000
    # What is decoded is what was decided.
    assert end.entry.public_records()[-1].value
