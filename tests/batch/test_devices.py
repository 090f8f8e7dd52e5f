"""The benchmark of devices: nothing is measured where there is no GPU, and it says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "devices.py"


def devices(*words):
    """Its output on the processor alone."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(SCRIPT), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_gpu_it_says_so_in_one_line():
    (line,) = devices().splitlines()
    assert "JAX sees no GPU here" in line
    assert not any(c.isdigit() for c in line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("hpd-fixed", "500", "20"), ("mixture", "0", "0")])
def test_each_kind_has_its_seconds(kind):
    assert float(devices(*kind)) > 0
