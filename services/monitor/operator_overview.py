"""What an operator sees of several studies at once: problems first, then what is due. Confidential.

`stream-dp status` runs for each study in a process of its own while somebody views the page.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from threading import Event, Lock, Thread

from ..storage.job_records import duration
from .operator_facts import CommandResult, command

_AT_ONCE = 4  # studies that are looked at together
_INTERVAL = 30.0  # seconds between two looks at all studies
_UNWATCHED = 120.0  # seconds after which nobody looks any more
_LATE = 300.0  # seconds after which a scheduled close that has not come is a problem


@dataclass(frozen=True)
class StudyRow:
    """One study in the operator's list.

    rank: 0 with a problem, 1 with a due close, 2 otherwise.
    due: when the open period can be closed, in Unix seconds; None without a calendar.
    budget_left: in percent of the total rho; None if it is unknown.
    jobs: the number of jobs by state.
    problems: in words.
    """

    name: str
    rank: int
    open_period: str | None = None
    due: float | None = None
    budget_left: float | None = None
    jobs: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()

    def due_words(self) -> str:
        return (
            "" if self.due is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.due))
        )

    def late_words(self, now: float) -> str:
        """How long the open period could have been closed; empty if it is not due."""
        return "" if self.due is None or now < self.due else duration(now - self.due)


def study_row(name: str, status: CommandResult, now: float) -> StudyRow:
    """The row of a study from the result of `stream-dp status --json`."""
    data = status.data
    if not status.succeeded or not data:
        return StudyRow(name, 0, problems=status.lines or ("its status cannot be read",))
    due = None if data.get("due") is None else datetime.fromisoformat(data["due"]).timestamp()
    late = data["open_period"] is not None and due is not None and now >= due
    problems = [*_problems(data)]
    if late and data["scheduled"] and due is not None and now - due > _LATE:
        problems.append(f"the scheduled close of {data['open_period']} has not come")
    states: dict[str, int] = {}
    for job in data.get("jobs", ()):
        states[job["state"]] = states.get(job["state"], 0) + 1
    spent, total = Fraction(data["rho_spent"]), Fraction(data["rho_total"])
    return StudyRow(
        name,
        rank=0 if problems else 1 if late else 2,
        open_period=data["open_period"],
        due=due,
        budget_left=float(100 * (total - spent) / total),
        jobs=tuple(sorted(states.items())),
        problems=tuple(problems),
    )


def _problems(data: Mapping[str, object]) -> Iterator[str]:
    """What needs an operator, from the result of `stream-dp status`."""
    if data.get("moved"):
        yield "its logs were copied or restored; 'stream-dp status' says what to do"
    for process in data.get("processes", ()):  # type: ignore[attr-defined]
        if process["missing"]:
            yield f"{process['name']}: {process['words']}"
    for job in data.get("jobs", ()):  # type: ignore[attr-defined]
        if job["state"] == "failed":
            yield f"job {job['id']}: {job['words']}"
    for snapshot in data.get("damaged_snapshots", ()):  # type: ignore[attr-defined]
        yield f"snapshot {snapshot} is damaged and set aside"


class Overview:
    """The latest rows of all studies, gathered while somebody views them."""

    def __init__(self, studies: Mapping[str, Path]) -> None:
        self._studies = dict(studies)
        self._rows: dict[str, StudyRow] = {}
        self._lock, self._viewed, self._last = Lock(), Event(), 0.0

    def rows(self) -> list[StudyRow]:
        """The rows of the studies that were looked at: problems first, then due ones."""
        self._last = time.monotonic()
        self._viewed.set()
        rows = list(self._rows.values())
        return sorted(rows, key=lambda row: (row.rank, row.due or float("inf"), row.name))

    @property
    def awaited(self) -> int:
        """How many studies were not looked at yet."""
        return len(self._studies) - len(self._rows)

    @property
    def head(self) -> str:
        """A hash of all rows; open pages reload after a change."""
        rows = [asdict(row) for row in self._rows.copy().values()]
        return hashlib.sha256(json.dumps([rows, self.awaited]).encode()).hexdigest()

    def refresh(self) -> None:
        """Looks at every study once."""
        with self._lock, ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._look, self._studies))

    def _look(self, name: str) -> None:
        status = command("status", self._studies[name])
        self._rows[name] = study_row(name, status, time.time())

    def start(self) -> None:
        Thread(target=self._follow, daemon=True, name="overview").start()

    def _follow(self) -> None:
        while self._viewed.wait():
            self.refresh()
            time.sleep(_INTERVAL)
            if time.monotonic() - self._last > _UNWATCHED:
                self._viewed.clear()
