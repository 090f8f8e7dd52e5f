"""Property tests repeat exactly: the same examples on every run."""

import os

import pytest
from broker import FOLDER, Broker
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """host:port of a real broker: the one in STREAM_DP_TEST_KAFKA, or one of this session's own."""
    running = os.environ.get("STREAM_DP_TEST_KAFKA")
    if running:
        yield running
        return
    own = Broker(tmp_path_factory.mktemp("kafka"), libs=FOLDER / "libs")
    yield own.start()
    own.stop()


@pytest.fixture(scope="module")
def copies_pass():
    """To the journal, a copied file is the one that it was written in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.log.sqlite.file_place", lambda path: "1/0")
        yield
