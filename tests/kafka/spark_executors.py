"""Spark with executors of its own, one of which is killed: spark_executors.py SERVER FOLDER.

A process of its own, as the driver's master is chosen once in each. Prints how many executors were
killed, and ends with an error where the answer is another one than before.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from kit.spark import application
from spark_days import SparkDays


@dataclass(frozen=True)
class KillExecutor:
    """Kills the executor whose task first comes to a step. mark: a file that is made then."""

    step: str
    mark: Path

    def __call__(self, step: str) -> None:
        if step != self.step:
            return
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return
        daemon = os.getppid()
        stat = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(stat[1]), signal.SIGKILL)


def main() -> None:
    server, folder = sys.argv[1], Path(sys.argv[2])
    settings = {
        "spark__master": "local-cluster[2,1,1024]",
        "spark__executor__memory": "512m",
        "spark__authenticate": "true",
        "spark__authenticate__secret": uuid.uuid4().hex,
        "spark__network__crypto__enabled": "true",
        "spark__io__encryption__enabled": "true",
    }
    with application(folder, **settings) as session:
        days = SparkDays.on_kafka(
            folder / "days", server, f"e-{uuid.uuid4().hex[:12]}", 2, partitions=2, engine="spark"
        )
        assert isinstance(days, SparkDays)
        days.session = session
        for number in (1, 2):
            days.send(days.day(number))
            days.run()
        order, manifest = days.last()
        assert days.answer(order, spark=False) == manifest
        killed = 0
        for step in ("decoded", "part-written"):
            mark = folder / step
            answer = days.answer(order, spark=True, at=KillExecutor(step, mark), most=20)
            assert answer == manifest, step
            killed += mark.exists()
        print(f"killed {killed}")


if __name__ == "__main__":
    main()
