"""The most memory that `stream-dp run` takes, in a process that has imported all before."""

from __future__ import annotations

from pathlib import Path

from .fork_server import run

_CHILD = """
import re, sys
from pathlib import Path
from stream_dp.services.commands.cli import main
def peak():
    # Not ru_maxrss, which begins with what the parent had.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
code = main(["run", sys.argv[1], "--until-idle"])
print(code, (peak() - before) // 1024)
"""


def run_peak(study_file: Path, timeout: float) -> int:
    """MiB more at most, in a run that ends with exit code 0 within `timeout` seconds."""
    process = run("-c", _CHILD, study_file, timeout=timeout)
    code, peak = map(int, process.stdout.split()[-2:])
    assert code == 0, process.stderr
    return peak
