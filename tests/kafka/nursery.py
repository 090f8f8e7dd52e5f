"""A process that forks releasers; Kafka clients do not survive a fork, so it has none itself.

Reads a JSON object a line: {"start": ORDER} answers the id of a new process, {"poll": ID} answers
its exit code, or null while it runs (a negative code is the signal that ended it).

The keys of an ORDER:
    study: its file
    said: the file for what it prints
    trace: the file for its steps and draws
    step, call: die at that call, from 0, of that step
    after: so many seconds later
    hold: wait at the step until that file exists, instead of dying
    fault: "publish first" for a releaser that is wrong, to see that this is noticed
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
from types import SimpleNamespace
from typing import Any

from kit.panels import shared

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import confluent_kafka
import pytest
from kit.panels import Noiseless, fix_secrets
from kit.steps import OPEN_TRANSACTIONS

import stream_dp.log.kafka_writer
import stream_dp.services.commands.run
import stream_dp.services.storage.journal
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.storage.journal import Entry

MOST_SECONDS = 600


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
        fix_secrets(pytest.MonkeyPatch())
        releaser_of = stream_dp.services.commands.run.releaser_of

        def noiseless_releaser(*arguments: Any, **options: Any) -> Releaser:
            process = releaser_of(*arguments, **options)
            process.source = Noiseless(lambda number: self.note(f"draw {number}"))
            shared(process, at=self.step)
            if self.order.get("fault") == "publish first":
                _publish_first(process)
            return process

        stream_dp.services.commands.run.releaser_of = noiseless_releaser
        stream_dp.log.kafka_writer.Producer = _producer(self)
        return main(["run", self.order["study"]])


def _publish_first(process: Releaser) -> None:
    """Publish before the journal's commit: readers can see a draw that is then aborted."""
    own, journal_records = process.log.own, stream_dp.services.storage.journal.journal_records
    decided = []

    def noted(entry: Any, study: Any) -> Any:
        decided.append(Entry(entry))
        return journal_records(entry, study)

    stream_dp.services.storage.journal.journal_records = noted

    @contextmanager
    def both(name: str, topic: str | None = None) -> Iterator[Any]:
        with own(name, topic) as writer:
            commit = writer.commit

            def early(records: Any) -> None:
                if not decided:  # a heartbeat
                    commit(records)
                    return
                entry = decided.pop()
                with process.public.own("early") as publisher:
                    publisher._producer.begin_transaction()
                    publisher._writer.produce(publisher._producer, entry.public_records())
                    publisher._producer.flush(10)
                    commit(records)
                    publisher._producer.abort_transaction(10)

            yield SimpleNamespace(commit=early, mark=writer.mark)

    process.log.own = both


def _producer(life: Life) -> type:
    """A producer class with a step before each commit, when all records are at the broker."""

    class Producer(confluent_kafka.Producer):
        def commit_transaction(self, timeout: float) -> None:
            self.flush(timeout)
            if life.last in OPEN_TRANSACTIONS:
                life.step(OPEN_TRANSACTIONS[life.last])
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
    ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(start(request["start"]) if "start" in request else poll(request["poll"])))
        sys.stdout.flush()
