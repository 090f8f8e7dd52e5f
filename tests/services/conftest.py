"""A folder in memory, signal handlers that are restored, workers that begin as copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.fork_server import as_subprocess
from kit.killed import in_memory
from kit.signals import restored_handlers


@pytest.fixture(autouse=True, scope="module")
def _copies_of_a_warm_process() -> Iterator[None]:
    """The workers and aggregators of releasers; those of an installed package are its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.services.releaser.child_process.subprocess", as_subprocess())
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
