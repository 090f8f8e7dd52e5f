"""The seconds of a long command, on a terminal alone."""

from __future__ import annotations

import io
import sys
import time

import pytest

from stream_dp.services.process.command_output import shown_elapsed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("screen", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_long_command_shows_its_seconds(
    screen: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    with shown_elapsed("stream-dp check", after=0.01):
        deadline = time.monotonic() + 60
        while shown and not screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert screen.getvalue().startswith("\rstream-dp check: 0 s") == shown
    assert screen.getvalue().endswith("\r\x1b[K") == shown


def test_a_short_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with shown_elapsed("stream-dp check", after=600):
        pass
    assert screen.getvalue() == ""
