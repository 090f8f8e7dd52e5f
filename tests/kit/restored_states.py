"""A study with a witness whose files were restored, lost or exchanged, each on its own.

A state names an age for each piece of the study. The releaser is started on the state as an
operator would: plainly, then with `--moved`, then with `--new-witness` as well.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from kit.panels import StudyFolder, declaration, script
from stream_dp.log.log import Record
from stream_dp.log.owned_files import mark_path
from stream_dp.services.commands.cli import main
from stream_dp.services.process.command_output import INCONSISTENT
from stream_dp.services.storage.restored_logs import ROLE
from stream_dp.study.topics import RELEASES

PIECES = ("journal", "mark", "public", "witness", "snapshots")
NOW, OLD, MISSING, FOREIGN = AGES = ("now", "old", "missing", "foreign")
# How an operator starts the releaser, one after the other while it refuses.
STARTS: dict[str, tuple[str, ...]] = {
    "run": (),
    "--moved": ("--moved",),
    "--new-witness": ("--moved", "--new-witness"),
}


@dataclass(frozen=True)
class State:
    """The age of each piece of a study."""

    journal: str
    mark: str
    public: str
    witness: str
    snapshots: str

    @property
    def words(self) -> str:
        return "-".join(getattr(self, piece) for piece in PIECES)

    @property
    def uniform(self) -> bool:
        """Whether nothing that is left contradicts that the study is of the journal's age.

        Snapshots of another journal say nothing, as several journals may share a folder.
        """
        silent = {NOW: {OLD, FOREIGN}, OLD: {FOREIGN}, FOREIGN: {NOW, OLD}, MISSING: set[str]()}
        return (
            {self.mark, self.public} <= {self.journal, MISSING}
            and self.witness == self.journal
            and self.snapshots in {self.journal, MISSING, *silent[self.journal]}
        )


STATES = tuple(State(*ages) for ages in itertools.product(AGES, repeat=len(PIECES)))


@dataclass(frozen=True)
class Started:
    """The end of a start. code: the exit code. drawn_again: whether published noise was redrawn."""

    code: int
    error: str
    drawn_again: bool


class RestoredStates:
    """A study and its earlier and foreign pieces.

    `now` has closed four periods, `old` two and `foreign`, another study of the same file, three.
    The reports of one more period are there in each.
    """

    def __init__(self, folder: Path) -> None:
        text = declaration() + '\nwitness = "sqlite:elsewhere/witness.db"\n'
        self.place = StudyFolder(folder / "study", text)
        self._kept, self._seen = folder, list[tuple[object, ...]]()
        (self.place.folder / "elsewhere").mkdir()
        sent = script()
        self._go_on(self.place, sent, 0, 2)
        self._keep(self.place, OLD)
        self._go_on(self.place, sent, 2, 4)
        self._keep(self.place, NOW)
        other = StudyFolder(folder / "other", text)
        (other.folder / "elsewhere").mkdir()
        self._go_on(other, sent, 0, 3)
        self._keep(other, FOREIGN)
        self._seen = self._written(self.place)

    def _go_on(self, place: StudyFolder, sent: list[list[Record]], first: int, end: int) -> None:
        """Publishes the periods after `first` up to `end`; sends the period after them."""
        for number in range(first, end):
            if number == 0:
                place.send(sent[0])
            started = self._start(place)
            assert started.code == 0, started
            place.send(sent[number + 1])

    def _paths(self, place: StudyFolder) -> dict[str, Path]:
        return {
            "journal": place.db,
            "mark": mark_path(place.db, ROLE),
            "public": place.public_db,
            "witness": place.folder / "elsewhere" / "witness.db",
            "snapshots": place.snapshots,
        }

    def _keep(self, place: StudyFolder, age: str) -> None:
        folder = self._kept / age
        folder.mkdir()
        for piece, path in self._paths(place).items():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / piece)

    def bring_to(self, state: State) -> None:
        """Brings the study to a state. A file that is there is written over in its place."""
        for piece, path in self._paths(self.place).items():
            age, kept = getattr(state, piece), self._kept / getattr(state, piece) / piece
            for file in path.parent.glob(f"{path.name}-*"):
                if file.is_file():  # what SQLite keeps beside a log
                    file.unlink()
            if piece == "snapshots":
                shutil.rmtree(path, ignore_errors=True)
                if age != MISSING:
                    shutil.copytree(kept, path)
            else:
                self._bring_file(path, None if age == MISSING else kept.read_bytes())

    def _bring_file(self, path: Path, content: bytes | None) -> None:
        """Gives a file its content. None: the file is missing until it gets content again."""
        aside = self._kept / f"aside-{path.name}"  # so that it stays the same file
        if aside.exists():
            aside.replace(path)
        if content is None:
            path.replace(aside)
            return
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(content)

    def _start(self, place: StudyFolder, *more: str) -> Started:
        error = StringIO()
        before = self._written(place)
        with redirect_stdout(StringIO()), redirect_stderr(error):
            code = main(["run", str(place.file), "--until-idle", *more])
        after = self._written(place)
        # Whatever was there before, a reader has seen the newest public log of this study.
        shorter = min(len(after), len(self._seen))
        again = after != before and after[:shorter] != self._seen[:shorter]
        lines = error.getvalue().splitlines()
        return Started(code, lines[-1].removeprefix("stream-dp: ") if lines else "", again)

    def _written(self, place: StudyFolder) -> list[tuple[object, ...]]:
        """The public records; none without a public log."""
        if not place.public_db.exists():
            return []
        with closing(sqlite3.connect(place.public_db)) as db:
            return db.execute(
                "SELECT offset, key, value, headers FROM records WHERE topic = ? ORDER BY offset",
                (RELEASES,),
            ).fetchall()

    def starts(self, state: State) -> Iterator[tuple[str, Started]]:
        """Starts the releaser on a state until it goes on: by the last option, how it ended.

        A study that begins anew gets its reports again.
        """
        self.bring_to(state)
        for name, more in STARTS.items():
            started = self._start(self.place, *more)
            if started.code == 0 and state.journal == MISSING:
                self.place.send(script()[0])
                started = self._start(self.place)
            yield name, started
            if started.code == 0:
                return


def faults(state: State, starts: dict[str, Started]) -> list[str]:
    """What must not be: a draw again that nobody accounts for, another code, no advice."""
    found = []
    for name, started in starts.items():
        if started.drawn_again and not state.uniform and name != "--new-witness":
            found.append(f"{name}: drawn again")
        if started.code not in (0, INCONSISTENT):
            found.append(f"{name}: exit code {started.code}")
        if started.code and not ADVICE & set(started.error.replace(",", "").split()):
            found.append(f"{name}: no advice: {started.error}")
    return found


ADVICE = {"restore", "bring", "begin", "find", "stop", "give", "stream-dp"}
