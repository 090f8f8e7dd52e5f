"""A process that forks releasers; Kafka clients do not survive a fork, so it has none itself.

Reads a JSON object a line: {"start": ORDER} answers the id of a new process, {"poll": ID} answers
its exit code, or null while it runs (a negative code is the signal that ended it).

ORDER: study, said and trace (files), step and call (die at that call of a step, from 0), after
(seconds more until then), hold (wait at the step until that file exists, instead of dying), fault
("publish first": a releaser that is wrong, to see that this is noticed).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import confluent_kafka
import pytest
from kit.panels import Noiseless, secrets_fixed

import stream_dp.log.kafka
import stream_dp.services.commands.run
import stream_dp.services.journal
from stream_dp.services.cli import main
from stream_dp.services.journal import Entry
from stream_dp.services.releaser.releaser import Releaser

MOST_SECONDS = 240
# What a transaction is about, by the step before it.
_OPEN = {"owned": "genesis open", "commit": "journal open", "publish": "release open"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Life:
    """One releaser process, from its start to its end."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order, self.calls, self.last = order, 0, ""
        self.trace = os.open(order["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, line: str) -> None:
        os.write(self.trace, f"{os.getpid()} {line}\n".encode())

    def step(self, name: str) -> None:
        self.note(name)
        self.last = name
        if name != self.order.get("step"):
            return
        self.calls += 1
        if self.calls != self.order.get("call", 0) + 1:
            return
        hold = self.order.get("hold")
        if hold:
            self.note("holds")
            while not Path(hold).exists():
                time.sleep(0.01)
        elif self.order.get("after"):
            threading.Timer(self.order["after"], die).start()
        else:
            die()

    def live(self) -> int:
        signal.alarm(MOST_SECONDS)
        secrets_fixed(pytest.MonkeyPatch())
        made = stream_dp.services.commands.run.releaser_of

        def releaser(*given: Any, **named: Any) -> Releaser:
            process = made(*given, **named)
            process.source = Noiseless(lambda number: self.note(f"draw {number}"))
            process.at = self.step
            if self.order.get("fault") == "publish first":
                _publish_first(process)
            return process

        stream_dp.services.commands.run.releaser_of = releaser
        stream_dp.log.kafka.Producer = _producer(self)
        return main(["run", self.order["study"]])


def _publish_first(process: Releaser) -> None:
    """One transaction for the journal and the public topic: an aborted draw can be read."""
    own, journal_records = process.log.own, stream_dp.services.journal.journal_records
    decided = []

    def noted(entry: Any, study: Any) -> Any:
        decided.append(Entry(entry))
        return journal_records(entry, study)

    stream_dp.services.journal.journal_records = noted

    @contextmanager
    def both(name: str, topic: str | None = None) -> Iterator[Any]:
        with own(name, topic) as writer:
            commit = writer.commit

            def early(records: Any) -> None:
                with process.public.own("early") as publisher:
                    publisher._producer.begin_transaction()
                    process.public._produce(publisher._producer, decided[-1].public_records())
                    publisher._producer.flush(10)
                    commit(records)
                    publisher._producer.abort_transaction(10)

            writer.commit = early
            yield writer

    process.log.own = both


def _producer(life: Life) -> type:
    """A producer with a step of its own: everything is at the broker, nothing is committed."""

    class Producer(confluent_kafka.Producer):
        def commit_transaction(self, timeout: float) -> None:
            self.flush(timeout)
            if life.last in _OPEN:
                life.step(_OPEN[life.last])
            super().commit_transaction(timeout)

    return Producer


def start(order: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        code = Life(order).live()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def poll(child: int) -> int | None:
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(start(asked["start"]) if "start" in asked else poll(asked["poll"])))
        sys.stdout.flush()
