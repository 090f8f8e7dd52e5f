"""Releasers in processes of their own that can be killed, paused and waited for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from days import Days
from kit.fork_server import Popen

NURSERY = Path(__file__).with_name("nursery.py")
PATIENCE = 300.0  # seconds
# In a study file: the longest time of a transaction, in milliseconds. Brokers look for those that
# lasted longer every ten seconds.
SHORT = '\n[run.kafka]\n"transaction.timeout.ms" = "4000"\n'
PAUSE = 15.0  # seconds: longer than such a transaction lasts


@dataclass
class Nursery:
    """The process that forks releasers (`nursery.py`), and the exit codes of those that ended.

    fault: what is wrong with every releaser, for a test of the tests; '' for nothing
    lives: how many releasers were started
    """

    days: Days
    fault: str = ""
    lives: int = 0
    codes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._process = Popen(
            [sys.executable, str(NURSERY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, **what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, **order: Any) -> Life:
        self.lives += 1
        said = self.days.folder / f"said-{self.lives}"
        files = {"study": str(self.days.file), "said": str(said), "trace": str(self.days.trace)}
        files["fault"] = self.fault
        return Life(self, self._ask(start={**files, **order}), said)

    def poll(self, pid: int) -> int | None:
        if pid not in self.codes and (code := self._ask(poll=pid)) is not None:
            self.codes[pid] = code
        return self.codes.get(pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(300)
        self._process.stdout.close()


@dataclass
class Life:
    """A releaser process. said: the file of what it printed."""

    nursery: Nursery
    pid: int
    said: Path

    @property
    def code(self) -> int | None:
        return self.nursery.poll(self.pid)

    def text(self) -> str:
        return self.said.read_text() if self.said.exists() else ""

    def waits(self) -> str:
        """The period whose close this process waits for, if that is what it does."""
        lines = self.text().splitlines()
        return lines[-1].rsplit(" ", 1)[1] if lines and " waits for: " in lines[-1] else ""

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        if self.code is None:
            os.kill(self.pid, how)
        return self.until(lambda: self.code is not None)

    def holds(self) -> bool:
        trace = self.nursery.days.trace
        return trace.exists() and f"{self.pid} holds" in trace.read_text()

    def pause(self, seconds: float) -> None:
        """Stop the process in the middle of whatever it does, and let it go on later."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)

    def until(self, done: Callable[[], bool], patience: float = PATIENCE) -> int:
        """Wait until that is true; the exit code, or 0 while the process lives."""
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"a releaser does not go on; it said: {self.text()}")
            time.sleep(0.02)
        return self.code or 0
