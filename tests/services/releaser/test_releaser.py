"""The releaser's loop: closing by markers, one releaser at a time, stopped, resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from kit.events import lines_to
from kit.fork_server import Popen
from kit.panels import (
    LABELS,
    PARTITIONS,
    PEOPLE,
    PERIODS,
    StudyFolder,
    counts,
    decided,
    fix_secrets,
    markers,
    raw,
    report,
    script,
    shared,
)

from stream_dp.log.log import MAX_RECORD, Busy
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import DEAD_LETTERS, RELEASES

# Closing by markers


def test_what_it_says_and_what_it_waits_for(place: StudyFolder) -> None:
    said: list[str] = []
    assert not place.run(tell=lines_to(said))
    assert said == ["2021-01 waits for: stream-dp close STUDY.toml 2021-01"]
    said.clear()
    place.send(script()[0])
    assert not place.run(tell=lines_to(said))
    assert said == [
        "closed 2021-01",
        "published 2021-01",
        "2021-02 waits for: stream-dp close STUDY.toml 2021-02",
    ]
    said.clear()
    place.send(markers(PERIODS))
    assert place.run(tell=lines_to(said))
    assert said[-1] == "the horizon is reached: every period is released"
    assert place.run()


def test_a_period_waits_for_a_marker_in_every_partition(place: StudyFolder) -> None:
    place.send([close_marker(1, 0)])
    assert not place.run()
    assert [e.number for e in place.entries()] == [0]
    place.send([report(0, "p", LABELS[0], {"work": "yes"})])
    place.send([report(1, "q", LABELS[0], {"work": "yes"}), close_marker(1, 1)])
    assert not place.run()
    entry = place.entries()[-1]
    assert (entry.number, entry.input.cut, counts(entry)) == (1, {0: 1, 1: 2}, {"working": [1]})


def test_one_marker_closes_every_open_period_and_repeating_it_is_harmless(
    place: StudyFolder,
) -> None:
    place.send([report(0, "p", label, {"work": "yes"}) for label in LABELS])
    place.send([*markers(3), *markers(3), *markers(1)])
    assert not place.run()
    assert [e.number for e in place.entries()] == [0, 1, 2, 3]
    assert {tuple(e.input.cut.items()) for e in place.entries()[1:]} == {((0, 6), (1, 1))}
    place.send([*markers(2), *markers(PERIODS), *markers(PERIODS)])
    assert place.run()
    assert [e.number for e in place.entries()] == list(range(PERIODS + 1))
    assert counts(place.entries()[-1])["working"] == [1] * PERIODS


def test_what_comes_after_a_close_is_a_dead_letter(place: StudyFolder) -> None:
    place.send([*markers(1), report(0, "p", LABELS[0], {"work": "yes", "poverty": 1})])
    place.send(markers(2))
    assert not place.run()
    assert place.reasons() == {"late": 2}
    assert counts(place.entries()[1]) == {"working": [0]}


def test_nothing_beyond_a_cut_is_folded_in_before_the_close(place: StudyFolder) -> None:
    """One partition runs ahead by many periods while the other one has not begun."""
    ahead = [[report(0, p, label, {"work": "yes"}) for p in "pq"] for label in LABELS]
    place.send([r for n, part in enumerate(ahead, 1) for r in [*part, close_marker(n, 0)]])
    place.send([report(0, "late", LABELS[0], {"work": "yes"})])
    assert not place.run()
    assert len(place.entries()) == 1
    for number in range(1, PERIODS + 1):
        place.send([close_marker(number, 1)])
        place.run()
        entry = place.entries()[-1]
        assert entry.input.cut == {0: 3 * number, 1: number}
        assert counts(entry)["working"] == [2] * number
    assert place.reasons() == {}


# Input that cannot be used


def test_any_record_can_be_rejected_and_none_stops_the_service(place: StudyFolder) -> None:
    odd = [
        b"",
        None,
        b"null",
        b"[" * 100_000,
        b'{"person": "\\ud800", "period": "2021-01", "values": {"work": "yes"}}',
        b"\x00" * (MAX_RECORD - 10),
        b'{"person": "' + b"x" * 900_000 + b'", "period": "2021-01", "values": {"work": "no"}}',
        b'{"person": {}, "period": [], "values": {"work": "yes"}}',
        b'{"person": 1e400, "period": 1e400, "values": {"work": 1e400}}',
        b'{"person": "p", "period": "2021-01", "values": {"work": {"a": []}}}',
    ]
    place.send([raw(n % PARTITIONS, data) for n, data in enumerate(odd)])
    place.send([report(0, "p", LABELS[0], {"work": "yes"}), *markers(1)])
    assert not place.run()
    entry = place.entries()[-1]
    assert counts(entry) == {"working": [1]}
    assert place.reasons() == entry.message.head["accounting"]["rejected"]
    assert sum(place.reasons().values()) == len(odd)


def test_a_dead_letter_holds_the_record_and_its_place_and_never_quotes_it(
    place: StudyFolder,
) -> None:
    place.send([raw(1, b"token-7391"), *markers(1)])
    assert not place.run()
    with place.log() as log:
        (letter,) = log.read(DEAD_LETTERS, {0: 0}, 10, 0).records
    assert (letter.key, letter.value) == (b"reports/1/0", b"token-7391")
    headers = dict(letter.headers)
    assert headers["__connect.errors.topic"] == b"reports"
    assert headers["__connect.errors.partition"] == b"1"
    assert headers["__connect.errors.offset"] == b"0"
    assert not any(b"token" in value for value in headers.values())


def test_a_record_with_two_letters_counts_for_both(place: StudyFolder) -> None:
    """One value of the record is unusable, and there is no slot for the other."""
    place.send([report(0, p, LABELS[0], {"work": "yes", "poverty": 7}) for p in PEOPLE])
    place.send(markers(1))
    assert not place.run()
    cells = place.entries()[-1].message.head["accounting"]
    assert place.reasons() == cells["rejected"] == {"value": 40, "full": 8}


# One at a time


def test_a_second_releaser_is_refused(place: StudyFolder) -> None:
    refused = []

    def at(step: str) -> None:
        if step == "owned":
            with pytest.raises(Busy, match="another process is its releaser; stop that one first"):
                place.run()
            refused.append(step)

    place.run(at=at)
    assert refused
    assert not place.run()


def test_a_second_process_is_refused(place: StudyFolder) -> None:
    first = process(place, "run")
    try:
        assert b"waits for" in line_of(first)
        second = process(place, "run")
        out, error = second.communicate(timeout=120)
        assert second.returncode == 2
        assert b"another process is its releaser; stop that one first" in error
        assert out == b""
    finally:
        first.kill()
        first.communicate()


# Stopping


def process(place: StudyFolder, *command: str) -> Popen:
    """A command on the study, as a process of its own."""
    name, *options = command
    return Popen(
        [sys.executable, "-m", "stream_dp.services.commands.cli", name, str(place.file), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def line_of(child: Popen) -> bytes:
    assert child.stdout is not None
    return child.stdout.readline()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_a_later_run_goes_on(
    place: StudyFolder, sign: signal.Signals
) -> None:
    place.send(script()[0])
    child = process(place, "run", "--json")
    assert child.stderr is not None
    while b"2021-02 waits for" not in child.stderr.readline():
        assert child.poll() is None
    child.send_signal(sign)
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert json.loads(out) == {"horizon_reached": False}
    if sign == signal.SIGINT:
        return  # what follows is the same
    before = place.rows(RELEASES)
    for records in script()[1:]:
        place.send(records)
    child = process(place, "run")
    out, error = child.communicate(timeout=120)
    assert (child.returncode, error) == (0, b"")
    assert b"the horizon is reached" in out
    assert place.rows(RELEASES)[: len(before)] == before
    assert [e.number for e in place.entries()] == list(range(PERIODS + 1))


def test_a_stop_at_any_step_ends_at_a_safe_point(folder: Path, copies_pass: None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        place = StudyFolder(folder / "sent")
        for records in script():
            place.send(records)
        calm = place.copy(folder / "calm")
        assert calm.run()
        expected = decided(calm.entries())
        for call in range(0, 60, 7):
            stopped = place.copy(folder / str(call))
            with stopped.releaser() as releaser:
                left = iter(range(call))
                stop = releaser.context.stop

                def at(step: str, stop: Event = stop, left: Iterator[int] = left) -> None:
                    if next(left, None) is None:
                        stop.set()

                shared(releaser, at=at)
                releaser.run()
            published = len(stopped.rows(RELEASES))
            decisions = [r for e in stopped.entries() for r in e.public_records()]
            assert published == len(decisions)
            assert stopped.run()
            assert decided(stopped.entries()) == expected


def test_a_kill_of_the_command_and_another_run(place: StudyFolder) -> None:
    for records in script():
        place.send(records)
    child = process(place, "run")
    assert b"closed 2021-01" in line_of(child)
    child.kill()
    child.communicate()
    child = process(place, "run", "--until-idle")
    child.communicate(timeout=120)
    assert child.returncode == 0
    child = process(place, "verify")
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert b"journal and public log agree\n" in out
