"""Property tests repeat exactly: the same examples on every run, however busy the machine is."""

import pytest
from hypothesis import HealthCheck, settings
from kit.brokers import running_broker, started_broker
from kit.cpu_table import CpuTable

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_configure(config):
    config.pluginmanager.register(CpuTable(), "cpu-table")


@pytest.fixture(scope="session")
def kafka():
    """host:port of a real broker: the one in STREAM_DP_TEST_KAFKA, or one of this session's own."""
    with running_broker() as address:
        yield address


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory):
    """A broker that the tests of a module may stop."""
    with started_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def copies_pass():
    """To the journal, a copied file is the one that it was written in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.log.sqlite.file_place", lambda path: "1/0")
        yield
