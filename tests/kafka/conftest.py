"""Fixtures of tests in which periods close by a schedule."""

import pytest
from kit.closes import FAR, PERIODS

from stream_dp.study import Periods


@pytest.fixture
def closes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the periods close and are released, in Unix seconds: FAR until a test changes it."""
    times = [FAR] * PERIODS
    for name in ("close_time", "release_time"):
        monkeypatch.setattr(Periods, name, lambda _, number: times[number - 1])
    return times
