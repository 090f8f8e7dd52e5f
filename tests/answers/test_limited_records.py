"""Default answers about tables: the records' number as far as the measurements allow."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from kit.data_sets import groups_table, people_table

from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.release.answer import RECORDS_LIMITED, Answer, ReleaseQuery, Sampled, Synthetic
from stream_dp.services.commands.estimate import answer_lines
from stream_dp.services.monitor.answers_for_people import noise_alone


def unbiased(value, records, error=10.0, **fields):
    """A count of people from measurements, beside the records' number."""
    answer = Answer("people", "a=1", "2021-01", "count", "people", value, error, None, "linear")
    interval = (value - 1.96 * (error or 0.0), value + 1.96 * (error or 0.0))
    fields = {"interval": interval, "origin": Synthetic.RECORDS, "synthetic": records, **fields}
    return replace(answer, **fields)


@pytest.mark.parametrize(
    ("value", "records", "expected", "error", "interval"),
    [
        (100.0, 104.0, 104.0, 10.77032961, (80.4, 119.6)),  # the records' number, sqrt(116)
        (100.0, 131.0, 115.0, 18.02775638, (80.4, 119.6)),  # no further than 1.5 standard errors
        (100.0, 0.0, 85.0, 18.02775638, (80.4, 119.6)),
        (12.0, 15.0, 15.0, 10.44030651, (0.0, 31.6)),  # cut to the possible
        (-18.0, 3.0, 0.0, 18.02775638, (0.0, 19.6)),  # moved until 0 is possible
        (-3.0, 30.0, 12.0, 18.02775638, (0.0, 19.6)),
    ],
)
def test_the_records_number_stays_within_its_limit(value, records, expected, error, interval):
    exact = unbiased(value, records)
    answer = limited_records(exact)
    assert (answer.value, answer.standard_error) == (expected, error)
    assert answer.interval == interval
    assert answer.unbiased is answer.alone() is exact
    assert answer.method == RECORDS_LIMITED
    assert answer.as_dict()["unbiased"]["value"] == value
    assert answer.as_dict()["records"] == records
    assert any(line.startswith("  unbiased") for line in answer_lines(answer, long=True))


def test_shares_have_two_ends_and_changes_may_be_below_0():
    share = unbiased(1.2, 0.95, 0.1, measure="share")
    assert limited_records(share).interval == (0.804, 1.0)
    assert limited_records(share).value == 1.0  # 1.05 is not possible
    minus = ReleaseQuery("people", "a=1", "2020-12")
    fall = limited_records(unbiased(-30.0, -25.0, minus=minus))
    assert (fall.value, fall.interval) == (-25.0, (-49.6, -10.4))
    # The verdict on a change is that of its interval: 3 standard errors.
    assert noise_alone(fall) == pytest.approx(0.0027, abs=1e-4)
    assert noise_alone(fall) == noise_alone(fall.unbiased)


def test_the_interval_with_sampling_moves_alike():
    sampled = Sampled(0.15, (-0.4, 0.1), "noise and sampling")
    answer = limited_records(unbiased(-0.1, 0.08, 0.1, measure="share", sampled=sampled))
    assert answer.sampled.interval == (0.0, 0.2)
    assert answer.sampled.standard_error == pytest.approx(np.hypot(0.15, 0.15))


def test_without_noise_or_measurements_there_is_nothing_to_limit():
    certain = unbiased(0.0, 0.0, 0.0)
    assert limited_records(certain) is certain
    unknown = unbiased(7.0, 7.0, None, interval=(0.0, 9.0))
    assert limited_records(unknown) is unknown


@pytest.mark.parametrize("truth", [0.0, 4.0, 60.0])
@pytest.mark.parametrize("bias", [0.0, 3.0, -8.0, 15.0, 40.0])
@pytest.mark.parametrize("followed", [0.0, 0.5, 1.0])
def test_no_bias_of_the_records_breaks_interval_or_error(truth, bias, followed):
    """Records off by any bias, that follow the noise of the measurement by any part of it."""
    noise = np.array([NormalDist(0, 10).inv_cdf((i + 0.5) / 500) for i in range(500)])
    errors, stated, exact_covers, covers = [], [], [], []
    for value, records in zip(truth + noise, truth + bias + followed * noise, strict=True):
        exact = unbiased(value, max(records, 0.0))
        answer = limited_records(exact)
        errors.append(answer.value - truth)
        stated.append(answer.standard_error)
        exact_covers.append(exact.interval[0] <= truth <= exact.interval[1])
        covers.append(answer.interval[0] <= truth <= answer.interval[1])
        assert answer.interval[0] <= answer.value <= answer.interval[1]
    assert np.all(np.array(covers) >= exact_covers)
    assert np.square(errors).mean() <= 1.01 * np.square(stated).mean()
    assert np.square(errors).mean() <= 3.26 * 100


@pytest.mark.parametrize("build", [lambda: people_table(5.0)[0], groups_table])
def test_tables_of_every_strategy_are_limited(build):
    tables = build()
    for exact in list(Conjunctions(tables).every())[::5]:
        answer = limited_records(exact)
        if exact.standard_error:
            limit = 1.5 * exact.standard_error * (1 + 1e-8)
            assert abs(answer.value - exact.value) <= limit or answer.value in (0, 1)
            nearer = abs(answer.value - exact.synthetic) <= abs(exact.value - exact.synthetic)
            assert nearer or answer.value == pytest.approx(exact.value)
