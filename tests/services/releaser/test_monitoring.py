"""The readiness of a running releaser, and metrics that alerts can use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kit.calendar import set_clock
from kit.listeners import STUDY, ask, both, metrics, rejected_series, until, watched
from kit.panels import (
    LABELS,
    PERIODS,
    Clock,
    StudyFolder,
    declaration,
    markers,
    raw,
    report,
    reports_of,
    shared,
)
from kit.studies import SCHEDULE
from prometheus_client import CollectorRegistry, generate_latest

from stream_dp.log.kafka_clients import TIMEOUT
from stream_dp.log.log import Record
from stream_dp.population.cells import REASONS
from stream_dp.services.releaser import releaser_role as roles
from stream_dp.services.releaser.input_reading import _ASK
from stream_dp.services.releaser.metrics_listeners import PublicMetrics
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import (
    SILENCE,
    CellCounts,
    Facts,
    InputFacts,
    JobFacts,
)
from stream_dp.services.storage.job_records import Progress
from stream_dp.studyfile import load_study

READY = f"stream_dp_ready{STUDY}"


LAG, UNREAD = (f"stream_dp_input_lag_{unit}{STUDY}" for unit in ("seconds", "records"))


PAUSED, OPEN = f"stream_dp_input_paused{STUDY}", f"stream_dp_open_period_cells{STUDY}"


DUE = f"stream_dp_release_due_timestamp_seconds{STUDY}"


ACCEPTED = f"stream_dp_closed_period_accepted_cells{STUDY}"


RECEIVED = f"stream_dp_cells_received_total{STUDY}"


@pytest.fixture
def scheduled(folder: Path) -> StudyFolder:
    return StudyFolder(folder / "scheduled", declaration(SCHEDULE))


def samples(place: StudyFolder) -> list[dict[str, float]]:
    """The metrics of the confidential listener at every step of a run until idle."""
    seen: list[dict[str, float]] = []
    watched(place, lambda step, inside, public: seen.append(metrics(inside)))
    return seen


# Counters


def test_every_reason_is_there_before_the_first_report(place: StudyFolder) -> None:
    place.send([raw(0, b"not JSON"), *reports_of(1)])
    seen = samples(place)
    for reason in REASONS:
        assert seen[0][rejected_series(reason)] == 0
    assert seen[-1][rejected_series("unreadable")] > 0
    assert all(seen[0].keys() <= later.keys() for later in seen)


def test_a_new_process_counts_what_comes_after_the_last_cut(place: StudyFolder) -> None:
    place.send([*reports_of(1), *markers(1), raw(0, b"behind the cut")])
    first = samples(place)[-1]
    assert first[rejected_series("unreadable")] > 1
    for _ in range(2):
        seen = samples(place)
        assert {s[rejected_series("unreadable")] for s in seen} == {0, 1}
        assert seen[-1][RECEIVED] == 1
    # Without a snapshot all of it is read again, and none of it counts again.
    for path in place.snapshots.iterdir():
        path.unlink()
    assert samples(place)[-1][RECEIVED] == 1


def test_no_counter_falls_where_roles_change_hands(
    place: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.send([*reports_of(1), *markers(1), raw(0, b"behind the cut")])
    samples(place)
    place.send([*reports_of(2), *markers(2)])
    monkeypatch.setattr(roles, "_FRESH", -1.0)
    seen: list[dict[str, float]] = []

    def look(step: str, inside: int, public: int) -> None:
        seen.append(metrics(inside))
        if step == "renewed":
            monkeypatch.setattr(roles, "_FRESH", 86_400.0)

    watched(place, look)
    counters = [name for name in seen[0] if "_total{" in name]
    assert len(counters) == 4 + len(REASONS)
    for before, after in pairwise(seen):
        assert all(before[name] <= after[name] for name in counters)


# Periods


def test_an_empty_period_is_seen_as_such(place: StudyFolder) -> None:
    def one(label: str) -> Record:
        return report(0, "somebody", label, {"poverty": 1})

    place.send([one(LABELS[0]), *markers(1)])
    seen = samples(place)
    assert ACCEPTED not in seen[0]
    assert seen[-1][ACCEPTED] == 1
    place.send([one(LABELS[0]), one(LABELS[2]), raw(0, b"not JSON"), *markers(2)])
    for _ in range(2):
        assert samples(place)[-1][ACCEPTED] == 0
    place.send(markers(3))
    assert samples(place)[-1][ACCEPTED] == 1


def test_the_next_release_is_due_at_its_time(scheduled: StudyFolder) -> None:
    periods = load_study(scheduled.file)[0].periods
    due = [periods.release_time(n) for n in range(1, PERIODS + 1)]
    assert samples(scheduled)[-1][DUE] == due[0]
    closed = periods.close_time(2)
    assert closed is not None
    set_clock(scheduled, closed)
    for _ in range(2):  # the second period is closed and not yet to be published
        assert samples(scheduled)[-1][DUE] == due[1]
    set_clock(scheduled, due[3] or 0)
    assert samples(scheduled)[-1][DUE] == due[4]
    set_clock(scheduled, due[4] or 0)
    for _ in range(2):
        assert DUE not in samples(scheduled)[-1]


def test_a_release_is_due_a_delay_after_its_marker(folder: Path) -> None:
    start = Clock(1_612_000_000.0)
    delayed = StudyFolder(
        folder / "delayed", declaration({"close": "marker", "delay": "1h"}), start
    )
    assert not any(DUE in seen for seen in samples(delayed))
    delayed.send(markers(1))
    due = start() + 3600
    assert samples(delayed)[-1][DUE] == due
    with delayed.releaser() as releaser:  # what is decided waits after a restart too
        assert not releaser.run(until_idle=True)
        assert releaser.context.facts.due == due
    set_clock(delayed, due)
    assert DUE not in samples(delayed)[-1]


def test_nothing_is_due_where_markers_close(place: StudyFolder) -> None:
    assert not any(DUE in seen for seen in samples(place))


# The intake


@pytest.fixture
def measured_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unread is measured after every read."""
    monkeypatch.setattr("stream_dp.services.releaser.input_reading.MEASURE", 0.0)
    monkeypatch.setattr("stream_dp.services.releaser.input_reading.MEASURE_SHARE", 0)


def test_unread_records_are_counted(
    place: StudyFolder, measured_always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = reports_of(1)
    place.send(records)
    monkeypatch.setattr("stream_dp.services.releaser.input_reading.READ_AT_ONCE", 10)
    seen = samples(place)
    unread = [s[UNREAD] for s in seen if UNREAD in s]
    assert UNREAD not in seen[0]
    assert unread[-1] == 0
    assert set(unread) >= {len(records) - n for n in range(10, len(records), 10)}
    # The clock of this log stands in 2020: what was read last was appended then.
    behind = [s[LAG] for s in seen if s.get(UNREAD)]
    assert min(behind) > time.time() - place.clock() - 3600
    assert seen[-1][LAG] == 0


def test_unread_records_have_waited_since_all_was_read(
    place: StudyFolder, measured_always: None
) -> None:
    place.clock = time.time
    with place.releaser() as releaser, both(releaser.context.facts) as (inside, _):
        releaser.run(until_idle=True)
        assert metrics(inside)[LAG] == metrics(inside)[UNREAD] == 0
        releaser.context.facts.input = InputFacts(3, time.time() - 100)
        assert 100 <= metrics(inside)[LAG] < 700
        releaser.context.facts.input = InputFacts(3, time.time() + 100)  # another machine's clock
        assert metrics(inside)[LAG] == 0
        releaser.context.facts.input = InputFacts(3, None)
        assert LAG not in metrics(inside)


def test_what_comes_while_a_release_waits_is_seen_as_unread(
    scheduled: StudyFolder, measured_always: None
) -> None:
    periods = load_study(scheduled.file)[0].periods
    set_clock(scheduled, periods.close_time(1) or 0)
    seen: list[dict[str, float]] = []

    def look(step: str, inside: int, public: int) -> None:
        if step == "committed":
            scheduled.send([raw(0, b"later"), raw(1, b"later")])
        seen.append(metrics(inside))

    watched(scheduled, look)
    assert {s[PAUSED] for s in seen} == {0}  # at every step; the wait lies between two
    assert seen[-1][UNREAD] == 2

    with scheduled.releaser() as releaser:
        paused: list[bool] = []
        shared(releaser, tell=lambda event: paused.append(releaser.context.facts.paused))
        releaser.run(until_idle=True)
    assert paused == [True]


def test_the_open_period_is_compared_with_the_last_one(
    place: StudyFolder, measured_always: None
) -> None:
    people = [report(0, f"p{i}", label, {"poverty": 1}) for label in LABELS[:2] for i in range(9)]
    place.send([*people, *markers(1)])
    seen = samples(place)
    assert (seen[-1][ACCEPTED], seen[-1][OPEN]) == (9, 9)
    place.send([*people[9:14], *markers(2)])
    seen = samples(place)
    assert max(s[OPEN] for s in seen if OPEN in s) == 14  # repeated cells count until the close
    assert (seen[-1][ACCEPTED], seen[-1][OPEN]) == (9, 0)


# Readiness


def test_a_log_is_asked_often_and_given_up_after_readiness() -> None:
    """A probe sees the silence before the process ends because of it."""
    assert 3 * _ASK <= SILENCE <= TIMEOUT / 2


@contextmanager
def stalling(releaser: Releaser) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The releaser runs beside this; while the first event is not set its log does not answer.

    The second is set once the releaser waits for an answer.
    """
    answers, waits = threading.Event(), threading.Event()
    answers.set()

    def slow(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if not answers.is_set():
                waits.set()
            answers.wait()
            return method(*given, **named)

        return call

    for name in ("read", "describe"):
        setattr(releaser.log, name, slow(getattr(releaser.log, name)))
    thread = threading.Thread(target=releaser.run, daemon=True)
    thread.start()
    try:
        yield answers, waits
    finally:
        releaser.context.stop.set()
        answers.set()
        thread.join(120)
    assert not thread.is_alive()


def answered(facts: Facts) -> None:
    """Waits until the log has answered once more."""
    before, deadline = facts.answered, time.monotonic() + 120
    while facts.answered == before:
        assert time.monotonic() < deadline, "the log is not asked"
        time.sleep(0.02)


@pytest.mark.parametrize("waits", ["for a marker", "for a close", "for its time"])
def test_not_ready_while_the_log_does_not_answer(
    waits: str, place: StudyFolder, scheduled: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def may_be_silent(seconds: float) -> None:
        monkeypatch.setattr("stream_dp.services.releaser.releaser_facts.SILENCE", seconds)

    may_be_silent(600.0)  # of a loaded machine
    monkeypatch.setattr("stream_dp.services.releaser.input_reading._ASK", 0.3)
    here, step = place if waits == "for a marker" else scheduled, "recovered"
    if waits == "for a close":
        here.send(reports_of(1))  # all of it after the close: nothing is read
        set_clock(here, (load_study(here.file)[0].periods.close_time(1) or 0) - 1)
        here.edit("UPDATE records SET time = 2000000000000")
    elif waits == "for its time":
        set_clock(here, load_study(here.file)[0].periods.close_time(1) or 0)
        step = "committed"
    there = threading.Event()

    def look(name: str) -> None:
        if name == step:
            there.set()

    with here.releaser(at=look) as releaser, both(releaser.context.facts) as (inside, public):
        with stalling(releaser) as (answers, unanswered):
            assert there.wait(600)
            until(inside, 200, 120)
            for _ in range(3):  # it is asked again and again
                answered(releaser.context.facts)
            assert ask(inside, "/readyz").status == 200
            before = ask(public, "/metrics")
            answers.clear()
            assert unanswered.wait(120)
            may_be_silent(0.5)
            until(inside, 503, 120)
            assert metrics(inside)[READY] == 0
            assert ask(inside, "/healthz").status == 200
            assert ask(public, "/metrics")[::2] == before[::2]
            may_be_silent(600.0)
            answers.set()
            answered(releaser.context.facts)
            until(inside, 200, 120)
            assert metrics(inside)[READY] == 1


# The public side


def test_nothing_confidential_reaches_the_public_metrics(place: StudyFolder) -> None:
    study = load_study(place.file)[0]
    empty, full = Facts(study), Facts(study)
    full.recovered, full.open_period, full.records_read = True, 3, 17
    full.cells = CellCounts(
        received=5, accepted=4, superseded=3, pending=2, rejected=dict.fromkeys(REASONS, 9)
    )
    full.closed_accepted, full.released = 8, 2
    full.input, full.paused = InputFacts(7, 1.0, 6), True
    full.jobs["job"] = JobFacts("failed", progress=Progress("job", 1, 2, 3.0, 4.0))
    full.answer()

    def shown(facts: Facts) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(PublicMetrics(facts))
        return generate_latest(registry)

    assert shown(full) == shown(empty)
