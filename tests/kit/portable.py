"""A seeded study of every continual kind, of which a process of its own runs a part.

`python -m kit.portable FOLDER LAST` closes the periods up to LAST. It then prints, as JSON, what an
analyst verifies on the public log, and answers by release.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kit import planned_errors
from stream_dp import client
from stream_dp.log.log import Missing, Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import Draw, SeededNoise
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage.journal import closes, read_heads
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study import Study
from stream_dp.study.topics import CLOCK, REPORTS
from stream_dp.studyfile import parse_study

PERIODS, PEOPLE = 6, 60


class NoiseOfPeriods(SeededNoise):
    """Noise that depends on how many draws there were, also of processes before."""

    def __init__(self, drawn: int) -> None:
        super().__init__(0)
        self._drawn = drawn

    def draw(self, demand: Any) -> Draw:
        self._drawn += 1
        return SeededNoise(self._drawn).draw(demand)


def study() -> Study:
    totals = [
        {"name": f"totals-{counter}", "kind": "cumulative", "counter": counter}
        for counter in ("unbounded", "tree")
    ]
    whole = [
        {"name": "residuals", "kind": "window", "width": 3},
        {"name": "histogram", "kind": "window", "width": 2, "strategy": "histogram"},
        {"name": "both", "kind": "joint", "width": 2},
        *totals,
    ]
    known = {"event": [1]}
    releases = [
        {"attribute": "work", "rho": "1/10", **({} if r["kind"] == "window" else known), **r}
        for r in whole
    ]
    coming = {"attribute": "visit", "rows": 80, "rho": "1/10"}
    releases += [
        {"name": "comers", "kind": "window", "width": 3, **coming},
        {"name": "comers-both", "kind": "joint", "width": 2, "event": [1], **coming},
        {"name": "entered", "kind": "cumulative", "event": [1], "size_share": "1/10", **coming},
    ]
    return parse_study(
        {
            "study": {
                "name": "portable",
                "unit": "person",
                "neighbours": "add_remove",
                "rho": 2,
                "delta": "1/1000000",
                "periods": {"first": 1, "every": "step", "count": PERIODS},
            },
            "attributes": {
                "work": {"values": [0, 1, 2], "missing": 0},
                "visit": {"values": [0, 1], "missing": "absent"},
            },
            "releases": [{**r, "rows": 80} if r["kind"] == "cumulative" else r for r in releases],
        }
    )


def main(folder: Path, last: int) -> None:
    planned_errors.remember()
    declared = study()
    log = SqliteLog(folder / "log.db", timed=(REPORTS, CLOCK))
    public = SqliteLog(folder / "public.db", public=True)
    log.create({REPORTS: 1})
    if not log.read(REPORTS, {0: 0}, 1, 0).records:
        answers = np.random.default_rng(5).integers(0, 3, (PEOPLE, PERIODS))
        log.append(
            Record(
                REPORTS,
                b'{"person":"%d","period":%d,"work":%d,"visit":%s}'
                % (person, t + 1, value, b"null" if value == 2 else b"%d" % value),
                b"%d" % person,
            )
            for person, row in enumerate(answers.tolist())
            for t, value in enumerate(row)
        )
    log.append([close_marker(last, 0)])
    drawn = _closed(log) * len(declared.releases)
    releaser = Releaser(
        Plan(declared),
        log,
        public,
        Snapshots("snapshots", folder),
        Context.of(declared, clock=lambda: 0.0),
        source=NoiseOfPeriods(drawn),
    )
    releaser.run(until_idle=True)
    log.close()
    public.close()


def read(public: Path) -> dict[str, Any]:
    log = client.open(f"sqlite:{public}")
    answers = {}
    for name in dict.fromkeys(r.certificate.release for r in log.releases):
        last = log.periods_of(name)[-1]
        found = [log.answer(name, query, last, count=True) for query in log.queries(name)[:3]]
        answers[name] = [number for a in found for number in (a.value, a.standard_error)]
    return {"verified": log.verify(), "answers": answers}


def _closed(log: SqliteLog) -> int:
    """How many periods are closed."""
    try:
        return closes(read_heads(log))[-1].number
    except (Missing, IndexError):
        return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(read(Path(sys.argv[1], "public.db"))))
