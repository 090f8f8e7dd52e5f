"""A folder in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.killed import in_memory


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder
