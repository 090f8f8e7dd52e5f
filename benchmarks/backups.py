"""Backups of studies that run: does `restore` accept each one that `backup` has completed?

    python benchmarks/backups.py [--trials 200] [--seed 0]

Each trial backs a study up at a random moment while its processes go on between the steps of the
backup; every second backup goes on from the one before it. Then the backup is restored into an
empty folder, and the study is run on to its end. A row a kind of study. In the last kind a
partition is added to the topic of the reports while the study runs. Refused by restore and changed
must be 0: changed counts studies that publish other bytes than were decided at the backup, or that
`verify` refuses. Kafka is the broker at STREAM_DP_TEST_KAFKA, or one that is started.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kafka"))
sys.path.insert(0, str(Path(__file__).parents[1] / "deploy" / "kafka"))

from days import Days
from kit.brokers import add_partition, running_broker
from kit.households import HouseholdFolder, NotedNoise
from kit.kill_studies import STUDIES, KillFolder
from kit.killed import in_memory
from kit.live_backups import Run, live_backups, published, restored, run_on
from kit.panels import StudyFolder, script
from kit.signals import restored_handlers
from result_file import record

from stream_dp.errors import UserError
from stream_dp.log.log import LogError
from stream_dp.services.commands.cli import main as command
from stream_dp.study.topics import REPORTS

BACKUPS = 5  # of one life of a study
PERIODS = 5


@dataclass
class Running:
    """A study to which everything was sent. text: for a restore. on: runs a restored study on."""

    file: Path
    text: str
    run: Run
    on: Callable[[Path], object]


def panels(folder: Path, server: str) -> Running:
    place = StudyFolder(folder / "study")
    for records in script():
        place.send(records)
    return Running(place.file, place.text, lambda at: run_on(place.file, at), run_on_moved)


def run_on_moved(file: Path) -> bool:
    return run_on(file, moved=True)


def tables(name: str, engine: str) -> Callable[[Path, str], Running]:
    """A study with data sets. name: in STUDIES. engine: where periods are closed."""
    (study,) = (study for study in STUDIES if study.name == name)

    def live(place: KillFolder, at: Callable[[str], None]) -> None:
        while not place.finished():
            for role in place.roles:
                place.live(role, NotedNoise(), at)

    def on(file: Path) -> None:
        place = KillFolder(file.parent, study, engine)
        HouseholdFolder.run(place, source=NotedNoise(), moved=True)
        live(place, lambda step: None)

    def running(folder: Path, server: str) -> Running:
        place = KillFolder(folder / "study", study, engine).prepare()
        return Running(place.file, place.text, lambda at: live(place, at), on)

    return running


def on_kafka(folder: Path, server: str, *, added: bool = False) -> Running:
    prefix = f"b-{uuid.uuid4().hex[:12]}"
    days = Days.on_kafka(folder / "days", server, prefix, PERIODS, partitions=2)
    days.send([record for number in range(1, PERIODS + 1) for record in days.day(number)])
    text = days.text().replace(days.public, "sqlite:public.db").replace(days.log, "sqlite:log.db")

    def run(at: Callable[[str], None]) -> None:
        steps = 0

        def counted(step: str) -> None:
            nonlocal steps
            steps += 1
            if steps == 14 and added:
                add_partition(days.log, REPORTS)
            at(step)

        with suppress(*((UserError, LogError) if added else ())):
            run_on(days.file, counted)

    return Running(days.file, text, run, run_on_moved)


def with_partition_added(folder: Path, server: str) -> Running:
    return on_kafka(folder, server, added=True)


KINDS: dict[str, Callable[[Path, str], Running]] = {
    "panels": panels,
    "households, jobs": tables("households: independent", "here"),
    "households, in parts": tables("households: independent", "processes"),
    "sizes of places": tables("sizes", "here"),
    "panels, on Kafka": on_kafka,
    "panels, on Kafka, partition added": with_partition_added,
}


@dataclass
class Outcome:
    """The counts of a kind."""

    trials: int = 0
    completed: int = 0
    refused: int = 0
    changed: int = 0


def life(kind: str, folder: Path, server: str, seed: int, outcome: Outcome) -> None:
    """Backs a study up some times during its life, and restores each backup."""
    running = KINDS[kind](folder, server)
    backups = live_backups(running.file, folder, BACKUPS, seed, running.run)
    outcome.trials += BACKUPS
    outcome.completed += len(backups)
    final = published(running.file)
    for backup in backups:
        target = folder / f"restored-{backup.name}"
        try:
            file, result = restored(backup, target, running.text, running.file.name)
        except (UserError, LogError) as error:
            outcome.refused += 1
            print(f"{kind}, seed {seed}: {error}", file=sys.stderr)
            continue
        decided = result.published + result.waiting
        running.on(file)
        same = published(file)[:decided] == final[:decided]
        with redirect_stdout(StringIO()):
            outcome.changed += not same or command(["verify", str(file)]) != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes = {kind: Outcome() for kind in KINDS}
    seed = options.seed
    with running_broker() as server, restored_handlers():
        while sum(outcome.trials for outcome in outcomes.values()) < options.trials:
            for kind, outcome in outcomes.items():
                seed += 1
                with in_memory() as folder:
                    life(kind, folder, server, seed, outcome)
    print(f"{'kind':36}{'trials':>8}{'completed':>11}{'refused':>9}{'changed':>9}")
    for kind, o in outcomes.items():
        print(f"{kind:36}{o.trials:8}{o.completed:11}{o.refused:9}{o.changed:9}")
        record("backups", kind, o.trials, o.completed, o.refused, o.changed)
    return any(outcome.refused or outcome.changed for outcome in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
