"""The crash matrix in short: every step, random moments, a broker, a second instance, pauses."""

import pytest
from matrix import run_on
from matrix_report import RANDOM, STEPS


def test_kills_at_every_step_and_at_random_moments(own_broker):
    report = run_on(own_broker, len(STEPS) + 2, 34, broker_kills=1, second=1, pauses=2)
    assert report.sound, report.table()
    assert all(report.kills[step] for step in (*STEPS, RANDOM)), report.table()
    assert report.periods == 34
    assert report.aborted_decisions > 0


@pytest.mark.slow
def test_kills_of_releasers_and_of_aggregators(own_broker):
    report = run_on(own_broker, 24, 36, broker_kills=1, second=1, pauses=1, engine="processes")
    assert report.sound, report.table()
    assert all(report.kills[step] for step in (*report.steps, RANDOM)), report.table()
    assert report.periods == 36
    assert report.aggregator_kills > 3


def test_a_releaser_that_shows_a_draw_before_it_is_decided_is_noticed(own_broker):
    report = run_on(own_broker, 3, 5, broker_kills=0, second=0, fault="publish first")
    assert report.wrong["periods with a second draw visible"] > 0, report.table()
