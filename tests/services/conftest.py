"""A folder in memory, and signal handlers that are restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.killed import in_memory
from kit.signals import restored_handlers


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restores the signal handlers that `stream-dp run` replaces."""
    with restored_handlers():
        yield
