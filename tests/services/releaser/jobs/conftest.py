"""A study of households in a folder in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.households import HouseholdFolder


@pytest.fixture
def homes(folder: Path) -> HouseholdFolder:
    return HouseholdFolder(folder / "homes")
