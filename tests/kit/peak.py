"""The most memory that `stream-dp run` takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CHILD = """
import re, sys
from pathlib import Path
from stream_dp.services.commands.cli import main
code = main(["run", sys.argv[1], "--until-idle"])
# Not ru_maxrss, which begins with what the parent had.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(code, int(peak) // 1024)
"""


def run_peak(study_file: Path, timeout: float) -> int:
    """MiB at most, of a run that ends with exit code 0 within `timeout` seconds."""
    process = subprocess.run(
        [sys.executable, "-c", _CHILD, str(study_file)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    code, peak = map(int, process.stdout.split()[-2:])
    assert code == 0, process.stderr
    return peak
