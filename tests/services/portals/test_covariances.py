"""The covariances beside a time series are those of the answers, of every kind with a series."""

from __future__ import annotations

from itertools import pairwise

import pytest
from kit.kinds_of_releases import published

from stream_dp.client import PublicLog
from stream_dp.services.portals import release_tables as covariances
from stream_dp.services.portals.release_tables import covariance_table, has_series, series_table
from stream_dp.study.families import Kind


def read(kind: Kind) -> PublicLog:
    public = PublicLog(published(kind))
    if not has_series(public):
        pytest.skip("sizes have no series")
    return public


@pytest.mark.parametrize("kind", Kind)
def test_differences_have_the_error_of_a_joint_answer(kind: Kind) -> None:
    public = read(kind)
    last = public.periods_of("answers")[-1]
    series = series_table(public, "answers", last)
    rows, table = series.to_pylist(), covariance_table(public, series).to_pylist()
    shared = {(row["first"], row["second"]): row["covariance"] for row in table}
    known = [number for number, row in enumerate(rows, 1) if row["STANDARD_ERROR"] is not None]
    assert [number for number in known if (number, number) in shared] == known
    for measure in ("share", "count"):
        numbers = [number for number in known if rows[number - 1]["MEASURE"] == measure]
        for first, second in pairwise(numbers[:12]):
            queries = [("answers", rows[i - 1]["QUERY"], last) for i in (second, first)]
            change = public.answers(queries, count=measure == "count").difference(0, 1)
            variance = shared[first, first] + shared[second, second] - 2 * shared[first, second]
            assert change.standard_error**2 == pytest.approx(max(0, variance), rel=1e-11, abs=1e-12)
            stated = [rows[i - 1] for i in (second, first)]
            values = [
                row["OBS_VALUE"] if row["UNBIASED"] is None else row["UNBIASED"] for row in stated
            ]
            assert change.value == pytest.approx(values[0] - values[1], abs=1e-9)


def test_short_queries_and_late_periods_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    public = read(Kind.CUMULATIVE)
    series = series_table(public, "answers")
    shares = [
        (row["QUERY"], row["TIME_PERIOD"], number)
        for number, row in enumerate(series.to_pylist(), 1)
        if row["MEASURE"] == "share"
    ]
    assert [row[:2] for row in shares] == [
        ("total at-least 1", "2026-01"),
        ("total at-least 1", "2026-02"),
        ("total at-least 2", "2026-02"),
    ]
    monkeypatch.setattr(covariances, "MOST", 1)
    table = covariance_table(public, series)
    assert table["first"].to_pylist() == table["second"].to_pylist()
    assert shares[1][2] in table["first"].to_pylist()
    assert table.num_rows == 2  # a share and a count


def test_without_errors_there_is_no_row() -> None:
    public = read(Kind.WINDOW)
    series = series_table(public, "answers").slice(0, 0)
    assert covariance_table(public, series).num_rows == 0
