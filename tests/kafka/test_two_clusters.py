"""What is confidential and what is public, each on a cluster of its own; the public one dies."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import pytest
from broker import Broker
from confluent_kafka.admin import AdminClient
from days import Days, everything
from lives import Nursery

from stream_dp.services.commands.cli import main
from stream_dp.study.topics import RELEASES

PERIODS = 3


def topics(server: str, prefix: str) -> set[str]:
    names = AdminClient({"bootstrap.servers": server}).list_topics(timeout=60).topics
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


@pytest.mark.parametrize("step", ["commit", pytest.param("release open", marks=pytest.mark.slow)])
def test_a_public_cluster_that_dies_delays_a_release_and_no_more(
    kafka: str, own_broker: Broker, tmp_path: Path, step: str
) -> None:
    prefix = f"two-{uuid.uuid4().hex[:12]}"
    urls = f"kafka://{kafka}/{prefix}", f"kafka://{own_broker.address}/{prefix}-public"
    place = Days(tmp_path / "days", *urls, PERIODS, partitions=2)
    assert main(["topics", str(place.file)]) == 0
    place.send([record for number in (1, 2) for record in place.day(number)])
    nursery, go = Nursery(place), tmp_path / "go"
    try:
        life = nursery.start(step=step, call=1, hold=str(go))  # of the first period
        life.until(life.holds)
        own_broker.stop(signal.SIGKILL)
        go.touch()
        life.until(lambda: life.code is not None or len(place.entries()) > 1)
        assert len(place.entries()) > 1  # what was decided is decided
        own_broker.start()
        place.send(place.day(3))
        if life.until(lambda: life.code is not None) != 0:
            assert life.code == 5, life.text()
            life = nursery.start()
            assert life.until(lambda: life.code is not None) == 0, life.text()
    finally:
        nursery.close()
    entries = place.entries()
    assert [entry.number for entry in entries] == list(range(PERIODS + 1))
    assert main(["verify", str(place.file)]) == 0
    decided = [(r.key, r.value) for entry in entries for r in entry.public_records()]
    with place.opened_public() as log:
        assert [(r.key, r.value) for r in everything(log, RELEASES)] == decided
    assert topics(kafka, prefix) == {
        *(".study", ".reports", ".dead-letters", ".journal", ".heartbeats"),
    }
    assert topics(own_broker.address, prefix) == {f"-public.{RELEASES}"}
