"""The logs of a small seeded study as a version wrote them, which later versions go on reading.

`python -m kit.frozen_logs` in `tests/` writes those of this version; only a first release does.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from stream_dp.log.log import Record
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import REPORTS

FROZEN = Path(__file__).parents[1] / "frozen"
LOGS = ("log.db", "public.db")
CLOSED, PEOPLE = 2, 9  # periods that are closed in the files, people who report


def unpacked(folder: Path) -> Path:
    """Copies the study and its logs to a folder; returns the study file."""
    shutil.copy(FROZEN / "study.toml", folder)
    for name in LOGS:
        (folder / name).write_bytes(gzip.decompress((FROZEN / f"{name}.gz").read_bytes()))
        (folder / name).chmod(0o600)
    return folder / "study.toml"


def go_on(file: Path, number: int, *, moved: bool) -> None:
    """Sends the reports of a period with its marker, and runs the releaser once.

    moved: whether the logs were copied since the last run.
    """
    deployment = Deployment.load(file)
    label = deployment.study.periods.labels[number - 1]
    with closing(deployment.log()) as log, closing(deployment.public()) as public:
        log.create({REPORTS: 1})
        for person in range(PEOPLE):
            report = {
                "person": f"p{person}",
                "period": label,
                "values": {"work": (person + number) % 2},
            }
            log.append([Record(REPORTS, json.dumps(report).encode(), b"p")])
        log.append([close_marker(number, 0, deployment.study)])
        Releaser(
            Plan(deployment.study),
            log,
            public,
            deployment.snapshots,
            Context.of(deployment.study),
            source=SeededNoise(number),
            moved=moved,
        ).run(until_idle=True)


def write() -> None:
    """Writes the logs that `unpacked` copies."""
    with TemporaryDirectory() as name:
        file = Path(shutil.copy(FROZEN / "study.toml", name))
        for number in range(1, CLOSED + 1):
            go_on(file, number, moved=False)
        for log in LOGS:
            path = file.parent / log
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (FROZEN / f"{log}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


if __name__ == "__main__":
    write()
