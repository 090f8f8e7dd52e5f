"""Aggregators of a study, one after the other, many of them killed with SIGKILL at work."""

from __future__ import annotations

import os
import random
import threading
import time
from multiprocessing import get_context
from pathlib import Path

SHARE, MOST = 0.5, 1.0  # of the orders that end with a kill; seconds after their begin at most
_BEGUN = b"closes "  # what an aggregator says when it begins an order
# They are copies of a process that has imported what they need, and has no connection.
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["stream_dp.services.parts.aggregate", "stream_dp.log.kafka", "aggregators"]
)


def aggregate(study: Path, said: Path) -> None:
    """Runs an aggregator in this process. said: the file for what it prints."""
    from stream_dp.services.commands.cli import main

    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    main(["aggregate", str(study)])


class Aggregators:
    """They run until `stop`; from `calm` on none is killed.

    study: its file.
    kills: how many were killed.
    """

    def __init__(self, study: Path, seed: int) -> None:
        self._study, self._rng, self.kills = study, random.Random(seed), 0
        self._calm, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        said = self._study.with_name("said-aggregators")
        while not self._over.is_set():
            said.write_bytes(b"")
            process = _CONTEXT.Process(target=aggregate, args=(self._study, said))
            process.start()
            begun = 0
            while process.is_alive() and not self._over.wait(0.02):
                orders = said.read_bytes().count(_BEGUN)
                if orders > begun and not self._calm.is_set() and self._rng.random() < SHARE:
                    time.sleep(self._rng.uniform(0, MOST))
                    self.kills += process.is_alive()
                    break
                begun = orders
            process.kill()
            process.join()

    def calm(self) -> None:
        self._calm.set()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
