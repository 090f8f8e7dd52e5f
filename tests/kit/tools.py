"""Programs that are not Python's: where they are, or a mark that skips what needs them."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / ".tools" / "bin"  # where tests/tools puts them


def tool(name: str) -> str | None:
    """The path of a program; None where it is not installed."""
    return which(name, path=f"{FETCHED}{os.pathsep}{os.environ['PATH']}")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test where one of these is not installed, and says how it is."""
    missing = [name for name in names if tool(name) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)} not installed: run tests/tools"
    )
