"""Aggregators of a study, one after the other, many of them killed with SIGKILL at work."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

SHARE, MOST = 0.5, 1.0  # of the orders that end with a kill; seconds after their begin at most
_BEGUN = b"closes "  # what an aggregator says when it begins an order


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
        command = [sys.executable, "-m", "stream_dp.services.cli", "aggregate", str(self._study)]
        said = self._study.with_name("said-aggregators")
        while not self._over.is_set():
            with said.open("wb") as file:
                process = subprocess.Popen(command, stdout=file, stderr=file)
            begun = 0
            while process.poll() is None and not self._over.wait(0.02):
                orders = said.read_bytes().count(_BEGUN)
                if orders > begun and not self._calm.is_set() and self._rng.random() < SHARE:
                    time.sleep(self._rng.uniform(0, MOST))
                    self.kills += process.poll() is None
                    break
                begun = orders
            process.kill()
            process.wait()

    def calm(self) -> None:
        self._calm.set()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
