"""Releasers as processes on a real broker: asked to end, begun at once, paused in a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from days import Days
from kit.fork_server import Popen
from lives import PAUSE, SHORT, Life, Nursery
from watch import Watch

from stream_dp.services.commands.cli import main

PERIODS = 3


@pytest.fixture
def place(kafka: str, tmp_path: Path) -> Days:
    prefix = f"i-{uuid.uuid4().hex[:12]}"
    return Days.on_kafka(tmp_path / "days", kafka, prefix, PERIODS, partitions=2)


def started(place: Days) -> Popen:
    return Popen(
        [sys.executable, "-m", "stream_dp.services.commands.cli", "run", str(place.file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def says(child: Popen, words: str) -> None:
    assert child.stdout is not None
    said = []
    while words not in (line := child.stdout.readline()):
        said.append(line)
        assert line, f"it ended, and said: {said}"


def test_an_idle_releaser_ends_when_asked_and_the_next_one_goes_on(place: Days) -> None:
    place.send(place.day(1))
    child = started(place)
    try:
        says(child, "2021-01-02 waits for")
        time.sleep(1)  # it is idle, in the middle of a read
        child.terminate()
        rest, _ = child.communicate(timeout=300)
        assert (child.returncode, rest) == (0, "")
        assert [entry.number for entry in place.entries()] == [0, 1]
        place.send([record for number in (2, 3) for record in place.day(number)])
        child = started(place)
        said, _ = child.communicate(timeout=300)
        assert child.returncode == 0, said
        assert "the horizon is reached" in said
    finally:
        child.kill()
        child.communicate()
    assert [entry.number for entry in place.entries()] == [0, 1, 2, 3]
    assert main(["verify", str(place.file)]) == 0


def drawn(nursery: Nursery) -> list[str]:
    return [x for x in nursery.days.trace.read_text().splitlines() if x.split()[1] == "commit"]


@pytest.mark.parametrize("sent_before", [False, True])
def test_of_two_that_begin_at_once_one_decides(place: Days, kafka: str, sent_before: bool) -> None:
    days = [record for number in range(1, PERIODS + 1) for record in place.day(number)]
    if sent_before:
        place.send(days)
    nursery = Nursery(place)
    try:
        lives = [nursery.start() for _ in range(2)]
        if not sent_before:
            for life in lives:
                life.until(lambda life=life: life.code is not None or bool(life.waits()))
            place.send(days)
        codes = ended(lives)
        # Each may have taken one of the two roles from the other: then both end, and one begins.
        if 0 not in codes:
            codes += ended([nursery.start()])
        # One that lost a role goes on once the other one has ended, and finds all of it done.
        assert 0 in codes, codes
        assert set(codes) <= {0, 3, 5}, codes
        assert len({line.split()[0] for line in nursery.days.trace.read_text().splitlines()}) <= 3
    finally:
        nursery.close()
    entries = place.entries()
    assert [entry.number for entry in entries] == list(range(PERIODS + 1))
    assert main(["verify", str(place.file)]) == 0
    # Even of what was aborted, nothing public was ever said in two ways.
    shown = defaultdict(set)
    for seen in Watch(kafka, f"{place.public.rsplit('/', 1)[1]}.releases").stop():
        shown[seen.id].add(seen.value)
    decided = {dict(r.headers)["ce_id"].decode() for e in entries for r in e.public_records()}
    assert shown.keys() == decided
    assert all(len(values) == 1 for values in shown.values())


@pytest.fixture
def nursery(place: Days) -> Iterator[Nursery]:
    nursery = Nursery(place)
    yield nursery
    nursery.close()


def over(life: Life) -> int | None:
    life.until(lambda: life.code is not None)
    return life.code


def stopped(place: Days, nursery: Nursery, step: str, go: Path) -> Life:
    """A releaser with short transactions that is stopped in one, and would commit it next."""
    study = place.file.read_text()
    place.file.write_text(study + SHORT)
    life = nursery.start(step=step, hold=str(go))
    life.until(life.holds)
    place.file.write_text(study)  # no other one is short of time
    os.kill(life.pid, signal.SIGSTOP)
    go.touch()
    return life


@pytest.mark.slow  # in the suite the crash matrix pauses a releaser at both steps
@pytest.mark.parametrize("step", ["journal open", "release open"])
def test_a_pause_in_a_commit_is_no_fencing(
    place: Days, nursery: Nursery, step: str, tmp_path: Path
) -> None:
    """The pause is longer than the transaction may last, so the process ends with code 5."""
    place.send(place.day(1))
    first = stopped(place, nursery, step, tmp_path / "go")
    first.pause(PAUSE)
    assert over(first) == 5, first.text()
    assert "no other one has its role" in first.text()
    again = nursery.start()
    again.until(lambda: again.code is not None or again.waits() == "2021-01-02")
    assert again.kill(signal.SIGTERM) == 0
    assert [entry.number for entry in place.entries()] == [0, 1]
    assert main(["verify", str(place.file)]) == 0


@pytest.mark.parametrize("step", ["journal open", "release open"])
def test_a_pause_while_another_one_takes_the_role_is_fencing(
    place: Days, nursery: Nursery, step: str, tmp_path: Path
) -> None:
    place.send(place.day(1))
    first = stopped(place, nursery, step, tmp_path / "go")
    second = nursery.start()
    second.until(lambda: "published" in second.text() or second.code is not None)
    first.pause(PAUSE)
    assert over(first) == 3, first.text()
    assert "another process has taken this role" in first.text()
    assert second.code is None
    assert second.kill(signal.SIGTERM) == 0
    assert main(["verify", str(place.file)]) == 0


def ended(lives: list[Life]) -> list[int]:
    for life in lives:
        life.until(lambda life=life: life.code is not None)
    return [life.code for life in lives if life.code is not None]
