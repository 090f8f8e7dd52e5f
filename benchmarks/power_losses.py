"""Losses of power during the lives of studies: is anything that was public changed or lost?

    python benchmarks/power_losses.py [--losses 1000] [--seed 0] [LIFE ...]

Each life is recorded once, call by call, with strace. Then the disk loses its power after any call.
A third of the losses leaves only what was synced, a third half of the rest as well, and a third all
names that a journalling file system has written by then. After each loss the study goes on as an
operator has it. A fault is a public record that a reader had seen and that is changed or gone, a
start that fails, a log that `verify` refuses, or a promise that was lost: a backup that ended with
exit code 0, a restored log, reports that `send` took. In the control the disk ignores syncs of the
confidential log, or of what was promised, and almost every loss must show a fault.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit import planned_errors
from kit.killed import in_memory
from kit.lossy_disk import MODES
from kit.power_lives import LIVES
from kit.power_losses import lose_power
from result_file import record

CONTROLS = 20  # losses of a life on a disk that ignores syncs


def lived(name: str, losses: int, seed: int) -> bool:
    """Prints and records the row of a life; returns whether it is sound and the control bites."""
    with in_memory() as folder:
        counts = lose_power(name, folder, losses=losses, control=CONTROLS, seed=seed)
    by_mode = [counts.losses[mode] for mode in MODES]
    figures = [*by_mode, len(counts.faults), counts.control, counts.found]
    print(f"{name:16}", *(f"{figure:11}" for figure in figures), flush=True)
    for loss, fault in counts.faults:
        print(f"  {loss}: {fault}")
    share = counts.found / counts.control
    record("power-losses", name, sum(by_mode), len(counts.faults), counts.control, share)
    return not counts.faults and share >= 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", type=int, default=1000, help="of all lives together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("lives", metavar="LIFE", nargs="*", default=list(LIVES), choices=LIVES)
    options = parser.parse_args()
    losses = -(-options.losses // len(LIVES))
    print(f"{'life':16}", *(f"{mode:>11}" for mode in (*MODES, "faults", "control", "found")))
    sound = True
    with tempfile.TemporaryDirectory() as errors:
        os.environ[planned_errors.FOLDER] = errors
        planned_errors.remember()
        for name in options.lives:
            sound &= lived(name, losses, options.seed)
    return not sound


if __name__ == "__main__":
    sys.exit(main())
