"""Programs that are not Python's: where they are, or a mark that skips what needs them."""

from __future__ import annotations

import os
from importlib.util import find_spec
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


def axe_core() -> str:
    """The script that finds what some people could not read or reach on a page."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-playwright-python is not installed: run tests/run")
    return (Path(spec.origin).parent / "axe.min.js").read_text("utf-8")
