"""The compiled consumer, without a broker."""

import resource
from pathlib import Path

import confluent_kafka.cimpl
import pytest

from stream_dp.compiled import compiled_reader

pytestmark = pytest.mark.skipif(
    compiled_reader() is None, reason="the compiled reader is not installed"
)
TOPICS, TIMES = 2_000, 200
MOST_MORE = 20 << 20  # bytes; the lists of all times together take over 100 MB


def resident():
    """The memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_topic_s_faulty_name_leaves_no_memory_behind():
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "nobody"}
    consumer = compiled_reader().Consumer(confluent_kafka.cimpl.__file__, settings)
    faulty = [*(("reports", partition, 0) for partition in range(TOPICS)), ("re\0ports", 0, 0)]
    before = 0
    for time in range(TIMES):
        for assign in (consumer.assign, consumer.incremental_assign):
            with pytest.raises(ValueError, match="nul byte"):
                assign(faulty)
        before = before or (resident() if time > 10 else 0)
    assert resident() - before < MOST_MORE
    consumer.close()
