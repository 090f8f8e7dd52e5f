"""Ends of a releaser at one of its steps: by an exception, or by a signal in a child."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable

Step = Callable[[str], None]  # called with the name of each step


class Stop(Exception):
    """Ends a run at a step."""


def stop_at(step: str, call: int = 1) -> Step:
    """Returns a listener that raises Stop at the call of that number of a step."""
    calls = 0

    def at(name: str) -> None:
        nonlocal calls
        calls += name == step
        if name == step and calls == call:
            raise Stop

    return at


def killed_at(run: Callable[[Step], object], step: str, call: int = 1) -> None:
    """Runs a releaser in a child that is killed at the call of that number of a step.

    run: is called with the listener for the releaser's steps.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(120)
            run(stop_at(step, call))
        except Stop:
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
