"""Property tests repeat exactly: the same examples on every run, however busy the machine is."""

import fcntl
import gc
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from kit import planned_errors, run_results
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
os.environ.setdefault("STREAM_DP_WEIGHTS", "false")  # tests of weights set it to true
# Hypothesis would draw constants of all modules that a process has imported by then: other examples
# in each process, for seconds of reading them.
providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config):
    config.pluginmanager.register(CpuTable(), "cpu-table")
    if run_results.FOLDER not in os.environ:  # in workers it is
        folder = tempfile.TemporaryDirectory(prefix="stream-dp-")
        os.environ[run_results.FOLDER] = folder.name
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(lambda: os.environ.pop(run_results.FOLDER))
    planned_errors.remember()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart():
    """Writes the table of characters that Hypothesis computes for seconds; workers read it."""
    st.text().validate()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The first process of a run collects alone, and writes what pytest makes of test modules.

    The others only read that, which takes a third of the time.
    """
    with (Path(os.environ[run_results.FOLDER]) / "collection").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_finish():
    """What is imported by now stays: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)


def pytest_unconfigure():
    """After this pytest collects garbage five times, among all that a long run has left."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Tests that fork this process come first: a fork of a process that has grown costs seconds.

    Those that stop a broker follow together, so that one process of a run starts one for them.
    """
    items.sort(
        key=lambda item: (
            not item.nodeid.startswith("tests/crash/"),
            "own_broker" not in getattr(item, "fixturenames", ()),
        )
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """A broker that tests may stop runs no longer than they need it."""
    if "own_broker" in getattr(item, "funcargs", ()) and "own_broker" not in getattr(
        nextitem, "fixturenames", ()
    ):
        item.funcargs["own_broker"].stop()


@pytest.fixture(scope="session")
def kafka():
    """host:port of a real broker: the one in STREAM_DP_TEST_KAFKA, or one of this session's own."""
    with running_broker() as address:
        yield address


@pytest.fixture(scope="session")
def _own_broker(tmp_path_factory):
    with started_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def own_broker(_own_broker):
    """A broker that a test may stop; the next test finds it running."""
    if not _own_broker.runs:
        _own_broker.start()
    return _own_broker


@pytest.fixture(scope="module")
def copies_pass():
    """To the journal, a copied file is the one that it was written in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.log.sqlite.identity_of_file", lambda path: "1/0")
        yield
