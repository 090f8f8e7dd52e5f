"""The releaser's loop: closing by markers or by the calendar, one at a time, stopped, resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from kit.killed import in_memory
from kit.panels import (
    LABELS,
    PARTITIONS,
    PEOPLE,
    PERIODS,
    SCHEDULE,
    Clock,
    Noiseless,
    Place,
    counts,
    decided,
    declaration,
    markers,
    raw,
    report,
    script,
    secrets_fixed,
)

from stream_dp.log.base import MAX_RECORD, Busy
from stream_dp.release.panels import TOPIC
from stream_dp.services.markers import close_marker
from stream_dp.services.topics import DEAD_LETTERS


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def place(folder: Path) -> Place:
    return Place(folder / "place")


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# Closing by markers


def test_what_it_says_and_what_it_waits_for(place: Place) -> None:
    said: list[str] = []
    assert not place.run(tell=said.append)
    assert said == ["2021-01 waits for: stream-dp close STUDY.toml 2021-01"]
    said.clear()
    place.send(script()[0])
    assert not place.run(tell=said.append)
    assert said == [
        "closed 2021-01",
        "published 2021-01",
        "2021-02 waits for: stream-dp close STUDY.toml 2021-02",
    ]
    said.clear()
    place.send(markers(PERIODS))
    assert place.run(tell=said.append)
    assert said[-1] == "the horizon is reached: every period is released"
    assert place.run()


def test_a_period_waits_for_a_marker_in_every_partition(place: Place) -> None:
    place.send([close_marker(1, 0)])
    assert not place.run()
    assert [e.number for e in place.entries()] == [0]
    place.send([report(0, "p", LABELS[0], {"work": "yes"})])
    place.send([report(1, "q", LABELS[0], {"work": "yes"}), close_marker(1, 1)])
    assert not place.run()
    entry = place.entries()[-1]
    assert (entry.number, entry.cut, counts(entry)) == (1, {0: 1, 1: 2}, {"working": [1]})


def test_one_marker_closes_every_open_period_and_repeating_it_is_harmless(place: Place) -> None:
    place.send([report(0, "p", label, {"work": "yes"}) for label in LABELS])
    place.send([*markers(3), *markers(3), *markers(1)])
    assert not place.run()
    assert [e.number for e in place.entries()] == [0, 1, 2, 3]
    assert {tuple(e.cut.items()) for e in place.entries()[1:]} == {((0, 6), (1, 1))}
    place.send([*markers(2), *markers(PERIODS), *markers(PERIODS)])
    assert place.run()
    assert [e.number for e in place.entries()] == list(range(PERIODS + 1))
    assert counts(place.entries()[-1])["working"] == [1] * PERIODS


def test_what_comes_after_a_close_is_a_dead_letter(place: Place) -> None:
    place.send([*markers(1), report(0, "p", LABELS[0], {"work": "yes", "poverty": 1})])
    place.send(markers(2))
    assert not place.run()
    assert place.reasons() == {"late": 2}
    assert counts(place.entries()[1]) == {"working": [0]}


def test_nothing_beyond_a_cut_is_folded_in_before_the_close(place: Place) -> None:
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
        assert entry.cut == {0: 3 * number, 1: number}
        assert counts(entry)["working"] == [2] * number
    assert place.reasons() == {}


# Input that cannot be used


def test_any_record_can_be_rejected_and_none_stops_the_service(place: Place) -> None:
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


def test_a_dead_letter_holds_the_record_and_its_place_and_never_quotes_it(place: Place) -> None:
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


def test_a_record_with_two_letters_counts_for_both(place: Place) -> None:
    """One value of it is unusable, and for the other one there is no place."""
    place.send([report(0, p, LABELS[0], {"work": "yes", "poverty": 7}) for p in PEOPLE])
    place.send(markers(1))
    assert not place.run()
    cells = place.entries()[-1].message.head["accounting"]
    assert place.reasons() == cells["rejected"] == {"value": 40, "full": 8}


# One at a time


def test_a_second_releaser_is_refused(place: Place) -> None:
    refused = []

    def at(step: str) -> None:
        if step == "owned":
            with pytest.raises(Busy, match="another process is its releaser; stop that one first"):
                place.run()
            refused.append(step)

    place.run(at=at)
    assert refused
    assert not place.run()


def test_a_second_process_is_refused(place: Place) -> None:
    first = process(place, "run")
    try:
        assert b"waits for" in line_of(first)
        second = process(place, "run")
        out, error = second.communicate(timeout=30)
        assert second.returncode == 2
        assert b"another process is its releaser; stop that one first" in error
        assert out == b""
    finally:
        first.kill()
        first.communicate()


# Stopping


def process(place: Place, *command: str) -> subprocess.Popen[bytes]:
    """A command on the study, as a process of its own."""
    name, *options = command
    return subprocess.Popen(
        [sys.executable, "-m", "stream_dp.services.cli", name, str(place.file), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def line_of(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None
    return child.stdout.readline()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_a_later_run_goes_on(
    place: Place, sign: signal.Signals
) -> None:
    place.send(script()[0])
    child = process(place, "run", "--json")
    assert child.stderr is not None
    while b"2021-02 waits for" not in child.stderr.readline():
        assert child.poll() is None
    child.send_signal(sign)
    out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert json.loads(out) == {"horizon_reached": False}
    before = place.rows(TOPIC)
    for records in script()[1:]:
        place.send(records)
    child = process(place, "run")
    out, error = child.communicate(timeout=30)
    assert (child.returncode, error) == (0, b"")
    assert b"the horizon is reached" in out
    assert place.rows(TOPIC)[: len(before)] == before
    assert [e.number for e in place.entries()] == list(range(PERIODS + 1))


def test_a_stop_at_any_step_ends_at_a_safe_point(folder: Path, copies_pass: None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        secrets_fixed(patch)
        place = Place(folder / "sent")
        for records in script():
            place.send(records)
        calm = place.copy(folder / "calm")
        assert calm.run()
        expected = decided(calm.entries())
        for call in range(0, 60, 7):
            stopped = place.copy(folder / str(call))
            with stopped.releaser() as releaser:
                left = iter(range(call))
                releaser.at = lambda step, r=releaser, left=left: (
                    r.stop.set() if next(left, None) is None else None
                )
                releaser.run()
            published = len(stopped.rows(TOPIC))
            decisions = [r for e in stopped.entries() for r in e.public_records()]
            assert published == len(decisions)
            assert stopped.run()
            assert decided(stopped.entries()) == expected


def test_a_kill_of_the_command_and_another_run(place: Place) -> None:
    for records in script():
        place.send(records)
    child = process(place, "run")
    assert b"closed 2021-01" in line_of(child)
    child.kill()
    child.communicate()
    child = process(place, "run", "--until-idle")
    child.communicate(timeout=30)
    assert child.returncode == 0
    child = process(place, "verify")
    out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert b"journal and public log agree\n" in out


# Closing by the calendar: three days and six hours after the period's end, out an hour later

CLOSES = [moment(f"2021-{month:02d}-04T06:00") for month in range(2, 7)]
HOUR = 3600


@pytest.fixture
def calendar(folder: Path) -> Place:
    return Place(folder / "calendar", declaration(SCHEDULE), Clock(moment("2021-01-10T00:00")))


def at_time(place: Place, now: float) -> None:
    assert isinstance(place.clock, Clock)
    place.clock.now = now


def test_nothing_is_decided_before_the_close_or_published_before_its_time(
    calendar: Place,
) -> None:
    said: list[str] = []
    calendar.send([report(0, "p", LABELS[0], {"work": "yes"})])
    at_time(calendar, CLOSES[0] - 1)
    assert not calendar.run(tell=said.append)
    assert said == ["2021-01 closes at 2021-02-04T06:00:00Z"]
    assert len(calendar.entries()) == 1
    declared = calendar.rows(TOPIC)

    at_time(calendar, CLOSES[0])
    said.clear()
    assert not calendar.run(tell=said.append)
    assert said == ["closed 2021-01", "2021-01 goes out at 2021-02-04T07:00:00Z"]
    assert [e.number for e in calendar.entries()] == [0, 1]
    assert calendar.rows(TOPIC) == declared

    at_time(calendar, CLOSES[0] + HOUR - 1)
    assert not calendar.run()
    assert calendar.rows(TOPIC) == declared

    at_time(calendar, CLOSES[0] + HOUR)
    assert not calendar.run()
    published = calendar.rows(TOPIC)[len(declared) :]
    assert {row[2] for row in published} == {round((CLOSES[0] + HOUR) * 1000)}
    times = {dict(msgspec.msgpack.decode(row[5])).get("ce_time") for row in published}
    assert times == {b"2021-02-04T07:00:00Z"}


def test_a_report_in_the_last_millisecond_counts_and_one_at_the_close_is_late(
    calendar: Place,
) -> None:
    at_time(calendar, CLOSES[0] - 0.001)
    calendar.send([report(0, "in time", LABELS[0], {"work": "yes"})])
    at_time(calendar, CLOSES[0])
    calendar.send([report(0, "late", LABELS[0], {"work": "yes"})])
    calendar.send([report(1, "late too", LABELS[0], {"work": "yes"})])
    at_time(calendar, CLOSES[1] + HOUR)
    assert not calendar.run()
    first = calendar.entries()[1]
    assert first.cut == {0: 1, 1: 0}
    assert counts(first) == {"working": [1]}
    assert calendar.reasons() == {"late": 2}


def test_a_late_start_closes_every_period_at_its_own_cut(calendar: Place) -> None:
    for number, closes in enumerate(CLOSES):
        at_time(calendar, closes - 1)
        calendar.send([report(0, f"p{number}", LABELS[number], {"work": "yes"})])
    at_time(calendar, CLOSES[-1] + HOUR)
    assert calendar.run()
    assert [e.cut[0] for e in calendar.entries()[1:]] == [1, 2, 3, 4, 5]
    assert counts(calendar.entries()[-1])["working"] == [5, 0, 0, 0, 0]


def test_a_schedule_decides_as_markers_at_the_same_cuts_do(
    folder: Path, calendar: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets_fixed(monkeypatch)
    marked = Place(folder / "marked")
    for number, records in enumerate(script(), 1):
        behind = [r for r in records if not r.headers]
        at_time(calendar, CLOSES[number - 1] - 10)
        calendar.send(behind[:-2])
        calendar.run()
        at_time(calendar, CLOSES[number - 1])
        calendar.send(behind[-2:])
        assert not calendar.run()
        marked.send(records)
        marked.run()
    at_time(calendar, CLOSES[-1] + HOUR)
    assert calendar.run()
    for scheduled, by_marker in zip(calendar.entries()[1:], marked.entries()[1:], strict=True):
        assert counts(scheduled) == counts(by_marker)
        assert scheduled.charges == by_marker.charges
        held = [e.message.head["accounting"] for e in (scheduled, by_marker)]
        assert held[0] == held[1]


def test_it_runs_by_the_clock_through_the_whole_horizon(
    calendar: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.services.releaser.releaser._POLL", 0)
    for label in LABELS:
        calendar.send([report(0, "p", label, {"work": "yes"})])
    clock, published = calendar.clock, []
    assert isinstance(clock, Clock)

    def ticking() -> float:
        clock.now += 6 * HOUR
        return clock.now

    def at(step: str) -> None:
        if step == "published":
            published.append(clock.now)

    with calendar.releaser(source=Noiseless(), clock=ticking, at=at) as releaser:
        assert releaser.run()
    for closes, out in zip(CLOSES, published[1:], strict=True):
        assert closes + HOUR <= out <= closes + 24 * HOUR


def test_a_crash_before_the_commit_of_a_scheduled_close_makes_the_same_cut(
    calendar: Place,
) -> None:
    at_time(calendar, CLOSES[0] - 5)
    calendar.send([report(0, "p", LABELS[0], {"work": "yes"})])
    at_time(calendar, CLOSES[0] + HOUR)

    def at(step: str) -> None:
        if step == "commit":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        calendar.run(at=at)
    calendar.send([report(0, "q", LABELS[0], {"work": "yes"})])
    assert not calendar.run()
    assert calendar.entries()[1].cut == {0: 1, 1: 0}
    assert counts(calendar.entries()[1]) == {"working": [1]}
