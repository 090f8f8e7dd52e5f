"""A broker that stops answering: not ready within half the time that a broker may take."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from days import MARKER, SCHEDULE, Days
from kit.listeners import ask, confidential_listener, until
from kit.panels import adapt, shared

from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.releaser.metrics_listeners import listening
from stream_dp.services.releaser.releaser_facts import SILENCE

SOON = {**SCHEDULE, "grace": "1h"}


def paused(broker: Broker) -> Callable[[], object]:
    """Pause the broker; what is returned lets it go on."""
    pid = int((broker.folder / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def killed(broker: Broker) -> Callable[[], object]:
    broker.stop(signal.SIGKILL)
    return broker.start


@pytest.mark.parametrize(
    ("close", "stop", "silence"),
    [
        pytest.param(MARKER, paused, SILENCE, id="reads, broker paused"),
        pytest.param(MARKER, killed, 4.0, id="reads, broker killed", marks=pytest.mark.slow),
        pytest.param(SOON, paused, 8.0, id="waits to publish, broker paused"),
    ],
)
def test_not_ready_while_the_broker_does_not_answer(
    close: dict[str, Any],
    stop: Callable[[Broker], Callable[[], object]],
    silence: float,
    own_broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_dp.services.releaser.releaser_facts.SILENCE", silence)
    # The process ends so long after the broker's last word: it has time to start and to go on.
    for module in ("kafka_clients", "kafka_reader"):
        monkeypatch.setattr(f"stream_dp.log.{module}.TIMEOUT", 300.0)
    days = Days.on_kafka(tmp_path, own_broker.address, f"r-{uuid.uuid4().hex[:12]}", 5, close=close)
    there, ended = threading.Event(), threading.Event()
    step = "committed" if close == SOON else "recovered"
    process = releaser_of(days.setting)
    if close == SOON:
        now = days.setting.study.periods.close_time(1) or 0.0
        adapt(process, clock=lambda: now)
    shared(process, at=lambda name: there.set() if name == step else None)

    def run() -> None:
        process.run()
        ended.set()  # not where it raises

    thread = threading.Thread(target=run, daemon=True)
    with ExitStack() as stack:
        stack.enter_context(closing(process.log))
        stack.enter_context(closing(process.public))
        inside = stack.enter_context(confidential_listener(process.context.facts))
        public = stack.enter_context(listening("127.0.0.1:0", process.context.facts, None))
        thread.start()
        stack.callback(thread.join, 300)
        stack.callback(process.context.stop.set)
        assert there.wait(120)
        until(inside, 200, 120)
        before = ask(public, "/metrics")
        go_on = stop(own_broker)
        try:
            until(inside, 503, silence + 120)
            assert ask(inside, "/healthz").status == 200
            assert ask(public, "/metrics")[::2] == before[::2]
        finally:
            go_on()
        until(inside, 200, 120)
    assert ended.is_set()


def test_the_log_is_asked_while_nothing_happens(own_broker: Broker, tmp_path: Path) -> None:
    """Longer than the silence that ends readiness, waiting for a scheduled time."""
    days = Days.on_kafka(tmp_path, own_broker.address, f"r-{uuid.uuid4().hex[:12]}", 5, close=SOON)
    process = releaser_of(days.setting)
    now = days.setting.study.periods.close_time(1) or 0.0
    adapt(process, clock=lambda: now)
    there = threading.Event()
    shared(process, at=lambda name: there.set() if name == "committed" else None)
    thread = threading.Thread(target=process.run, daemon=True)
    with closing(process.log), closing(process.public):
        thread.start()
        try:
            assert there.wait(120)
            begun, deadline = time.time(), time.monotonic() + 300
            while (process.context.facts.answered or 0.0) < begun + SILENCE:
                assert time.monotonic() < deadline, "the log is not asked"
                time.sleep(0.05)
        finally:
            process.context.stop.set()
            thread.join(300)
