"""A folder in memory, signal handlers that are restored, workers that begin as copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.fork_server import USERS, as_subprocess
from kit.killed import in_memory
from kit.signals import restored_handlers


@pytest.fixture(autouse=True, scope="module")
def _copies_of_a_warm_process() -> Iterator[None]:
    """Workers, aggregators and commands of a monitor; those of an installed package are its own."""
    with pytest.MonkeyPatch.context() as patch:
        for module in USERS:
            patch.setattr(f"{module}.subprocess", as_subprocess())
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restores the signal handlers that `stream-dp run` replaces."""
    with restored_handlers():
        yield
