"""Fixtures: periods that close by a schedule, an application of Spark."""

import pytest
from kit.closes import FAR, PERIODS
from kit.spark import application

from stream_dp.study import Periods


@pytest.fixture
def closes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the periods close and are released, in Unix seconds: FAR until a test changes it."""
    times = [FAR] * PERIODS
    for name in ("close_time", "release_time"):
        monkeypatch.setattr(Periods, name, lambda _, number: times[number - 1])
    return times


@pytest.fixture(scope="package")
def spark(tmp_path_factory):
    """The session of the one application that the tests of a process share."""
    with application(tmp_path_factory.mktemp("spark")) as session:
        yield session
