"""These tests copy folders for their own sake: what is refused of copies is in test_moved.py."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from kit.fork_server import LATE
from kit.killed import in_memory


@pytest.fixture(autouse=True, scope="session")
def _late_imports() -> None:
    """This process imports once what each of its forks would import by itself."""
    for name in LATE:
        import_module(name)


@pytest.fixture(autouse=True, scope="module")
def _copies_pass(copies_pass):
    """Every module of this folder."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory, for all tests of a module."""
    with in_memory() as folder:
        yield folder
