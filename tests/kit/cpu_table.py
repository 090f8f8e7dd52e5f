"""A pytest plugin: the CPU seconds of every test file, and the dearest twenty at the end of a run.

A test's CPU time is that of its own process and of the children that ended meanwhile, also those of
the fork server. A child that outlives a test, such as a broker, counts for the test at whose end it
is waited for. What is waited for at the end of a process, such as a browser, is a row of its own.

STREAM_DP_TEST_CPU names a file that gets a line for every test file and every test, dearest first.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import fork_server

SHOWN = 20
AT_THE_END = "what lives as long as a process of tests"
_NAME = "cpu_seconds"


def _cpu_seconds() -> float:
    return sum(os.times()[:4]) + fork_server.ended_seconds()


class CpuTable:
    """Collects CPU seconds by test file, over all processes of a run."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()
        self._seconds_by_test: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        item.stash[_BEGUN] = _cpu_seconds()
        item.stash[_IS_LAST] = nextitem is None
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report: Any = yield
        if report.when == "call":
            item.stash[_CALLED] = _cpu_seconds()
        if report.when == "teardown":
            begun, ended = item.stash[_BEGUN], _cpu_seconds()
            last = item.stash[_CALLED] if item.stash[_IS_LAST] and _CALLED in item.stash else ended
            report.user_properties += [(_NAME, last - begun), (AT_THE_END, ended - last)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a finished test; with several processes, in the one that prints."""
        seconds = dict(report.user_properties)
        if report.when == "teardown" and _NAME in seconds:
            file = report.nodeid.partition("::")[0]
            self._seconds[file] += seconds[_NAME]
            self._tests[file] += 1
            self._seconds_by_test[report.nodeid] += seconds[_NAME]
            if seconds[AT_THE_END]:
                self._seconds[AT_THE_END] += seconds[AT_THE_END]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = sum(self._seconds.values())
        if path := os.environ.get("STREAM_DP_TEST_CPU"):
            rows = [*self._seconds.most_common(), *self._seconds_by_test.most_common()]
            Path(path).write_text("".join(f"{seconds:8.2f} {name}\n" for name, seconds in rows))
        if len(self._seconds) <= SHOWN:
            return
        terminalreporter.section(f"{total:.0f} CPU seconds; the dearest {SHOWN} files")
        for file, seconds in self._seconds.most_common(SHOWN):
            terminalreporter.line(f"{seconds:8.1f} s {self._tests[file]:6} tests  {file}")


_BEGUN = pytest.StashKey[float]()
_CALLED = pytest.StashKey[float]()
_IS_LAST = pytest.StashKey[bool]()
