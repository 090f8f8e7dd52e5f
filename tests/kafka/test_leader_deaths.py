"""Leaders of the journal, the reports and the releases die, and a quorum goes away and returns."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).resolve().parents[2] / "benchmarks" / "kills" / "leader_deaths.py"


@pytest.mark.slow
def test_one_releaser_lives_through_dead_leaders_and_a_lost_quorum():
    done = subprocess.run(
        [sys.executable, str(COMMAND), "3", "20"], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The releaser lived through all of it: True." in done.stdout
