"""Tables of people by private-pgm's MST and AIM: options of benchmarks, and the peers' runs."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.people.people_table import People


@dataclass(frozen=True)
class Peers:
    """How the peers run.

    clone: of private-pgm.
    python: one that can run it, see `people_peer.py`.
    megabytes: at most, of AIM's model; 80 by default.
    steps: of mirror descent after each of AIM's rounds; 1,000 by default.
    minutes: of CPU, after which a peer is ended, without a table.
    """

    clone: Path
    python: str
    megabytes: float
    steps: int
    minutes: float

    @staticmethod
    def options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--peers", type=Path, metavar="CLONE", help="of private-pgm")
        parser.add_argument("--peer-python", metavar="PYTHON", default=sys.executable)
        parser.add_argument("--aim-megabytes", type=float, default=80, help="of AIM's model")
        parser.add_argument("--aim-steps", type=int, default=1000, help="of a fit, each round")
        parser.add_argument("--peer-minutes", type=float, default=600, help="of CPU, for one table")

    @classmethod
    def of(cls, options: argparse.Namespace) -> Peers | None:
        if options.peers is None:
            return None
        limits = options.aim_megabytes, options.aim_steps, options.peer_minutes
        return cls(options.peers, options.peer_python, *limits)

    def table(
        self, people: People, name: str, rho: Fraction, seed: int
    ) -> tuple[NDArray[np.int64], float, float]:
        """The codes of `aim` or `mst` at this rho, its CPU seconds and MiB.

        Raises TimeoutError after the declared minutes.
        """
        with tempfile.TemporaryDirectory() as folder:
            table, out = Path(folder, "table.csv"), Path(folder, "out.csv")
            header = ",".join(f"c{c}" for c in range(len(people.domain.columns)))
            np.savetxt(table, people.codes, fmt="%d", delimiter=",", header=header, comments="")
            sizes = ",".join(map(str, people.domain.sizes))
            script = Path(__file__).with_name("people_peer.py")
            limits = self.megabytes, self.steps
            words = [self.clone, name, float(rho), seed, *limits, sizes, table, out]
            seconds = round(60 * self.minutes)
            done = subprocess.run(
                ["prlimit", f"--cpu={seconds}", self.python, str(script), *map(str, words)],
                check=False,
                stdout=subprocess.PIPE,
                text=True,
            )
            if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                raise TimeoutError(f"{name} ended after {self.minutes:g} minutes of CPU")
            done.check_returncode()
            codes = np.loadtxt(out, delimiter=",", skiprows=1, dtype=np.int64)
        spent, peak = map(float, done.stdout.split())
        return codes, spent, peak
