"""The public monitor on a real broker: a release arrives, the broker dies and comes back."""

from __future__ import annotations

import json
import signal
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from broker import Broker
from kit.hostile import sound
from kit.monitors import Monitor, monitor, wait_until

from stream_dp.log import open_log
from stream_dp.log.message import Message, message_records
from stream_dp.study.topics import RELEASES

pytest.importorskip("fastapi")

INSECURE = {"STREAM_DP_INSECURE": "true"}


def publish(url: str, messages: list[Message]) -> None:
    """Appends messages to a public log on Kafka, each in a transaction, as a releaser does."""
    log = open_log(url, Path(), public=True, insecure=True, replication=1)
    with closing(log):
        log.create({RELEASES: 1})
        with log.own("releaser") as writer:
            for message in messages:
                writer.commit(
                    message_records(message, RELEASES, kind="k", source="s", content="c", time=None)
                )


def head(one: Monitor) -> str:
    status, body = one.get("/api/v1/verify")
    return str(json.loads(body)["head"]) if status == 200 else ""


@pytest.mark.slow
def test_a_killed_broker_is_an_error_page_until_it_is_back(own_broker: Broker) -> None:
    url = f"kafka://{own_broker.address}/monitored-{uuid.uuid4().hex[:8]}"
    messages = sound()
    publish(url, messages[:-4])
    with monitor(url, variables=INSECURE) as one:
        assert head(one) == messages[-5].hash
        publish(url, messages[-4:-2])
        wait_until(lambda: head(one) == messages[-3].hash)
        own_broker.stop(signal.SIGKILL)
        # What it has read and checked stays; what needs the log says so.
        assert head(one) == messages[-3].hash
        assert one.get("/release/pairs")[0] == 200
        status, body = one.get("/download/pairs/panel.csv")
        assert (status, json.loads(body)["error"]) == (503, "This public log cannot be shown")
        with monitor(url, variables=INSECURE, ready=503) as late:  # which has read nothing yet
            status, body = late.get("/")
            assert (status, b"This public log cannot be shown" in body) == (503, True)
            assert b"Traceback" not in body
            own_broker.start()
            publish(url, messages[-2:])
            for each in (one, late):
                wait_until(lambda each=each: head(each) == messages[-1].hash)  # type: ignore[misc]
                assert each.get("/download/pairs/panel.csv")[0] == 200
                assert each.process.poll() is None
