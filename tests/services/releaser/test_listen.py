"""The listeners of a running releaser: the pages of each, and when their values change."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest
from kit.commands import refusal
from kit.listeners import (
    ALLOWED,
    BEARER,
    STUDY,
    TOKEN,
    ask,
    both,
    metrics,
    names,
    rejected_series,
    watched,
)
from kit.panels import LABELS, PERIODS, StudyFolder, declaration, markers, script
from kit.studies import SCHEDULE

from stream_dp import __version__
from stream_dp.services.releaser.releaser_facts import Facts
from stream_dp.studyfile import load_study

MEASURED = {  # once something is read
    "stream_dp_input_lag_records",
    "stream_dp_input_lag_seconds",
    "stream_dp_open_period_cells",
}
CONFIDENTIAL = {
    "stream_dp_ready",
    "stream_dp_start_time_seconds",
    "stream_dp_open_period",
    "stream_dp_period_held",
    "stream_dp_records_read_total",
    "stream_dp_cells_received_total",
    "stream_dp_cells_accepted_total",
    "stream_dp_cells_superseded_total",
    "stream_dp_cells_rejected_total",
    "stream_dp_cells_pending",
    "stream_dp_input_paused",
    "stream_dp_log_answered_timestamp_seconds",
    "stream_dp_release_due_timestamp_seconds",
    "stream_dp_closed_period_accepted_cells",
    *MEASURED,
}


# What is served


def test_health_and_readiness_before_and_after_recovery(place: StudyFolder) -> None:
    place.send(script()[0])
    seen: dict[str, tuple[int, int, float]] = {}

    def look(step: str, inside: int, _: int) -> None:
        health, ready = ask(inside, "/healthz").status, ask(inside, "/readyz").status
        seen.setdefault(step, (health, ready, metrics(inside)[f"stream_dp_ready{STUDY}"]))

    watched(place, look)
    assert seen["owned"] == seen["begun"] == (200, 503, 0)
    assert seen["recovered"] == seen["drawn"] == (200, 200, 1)
    assert seen["end"] == (200, 503, 0), "the role is given back"
    seen.clear()
    watched(place, look)
    assert (seen["owned"], seen["recovered"]) == ((200, 503, 0), (200, 200, 1))


def test_confidential_metrics_follow_the_accounting(place: StudyFolder) -> None:
    place.send(script()[0])
    samples: dict[str, float] = {}
    watched(place, lambda step, inside, _: samples.update(metrics(inside)))
    cells = place.entries()[-1].message.head["accounting"]
    assert samples[f"stream_dp_cells_received_total{STUDY}"] >= cells["received"] > 0
    assert samples[f"stream_dp_cells_accepted_total{STUDY}"] == cells["accepted"] > 0
    assert samples[f"stream_dp_closed_period_accepted_cells{STUDY}"] == cells["accepted"]
    assert samples[f"stream_dp_cells_superseded_total{STUDY}"] >= cells["superseded"] > 0
    assert samples[f"stream_dp_cells_pending{STUDY}"] >= cells["pending"] > 0
    for reason, count in cells["rejected"].items():
        assert samples[rejected_series(reason)] >= count
    assert samples[f"stream_dp_records_read_total{STUDY}"] >= len(script()[0]) - 2
    assert samples[f"stream_dp_open_period{STUDY}"] == 2
    assert time.time() - 600 < samples[f"stream_dp_start_time_seconds{STUDY}"] <= time.time()
    assert time.time() - 600 < samples[f"stream_dp_log_answered_timestamp_seconds{STUDY}"]


def test_the_public_listener_serves_the_allow_list_and_nothing_else(place: StudyFolder) -> None:
    place.send(script()[0])
    place.send(script()[1])
    seen: dict[str, tuple[set[str], set[str]]] = {}
    watched(place, lambda step, inside, public: seen.update({step: (names(inside), names(public))}))
    assert seen["owned"] == (
        (CONFIDENTIAL | ALLOWED)
        - {
            "stream_dp_release_scheduled_seconds",
            "stream_dp_log_answered_timestamp_seconds",
            "stream_dp_release_due_timestamp_seconds",
            "stream_dp_closed_period_accepted_cells",
            *MEASURED,
        },
        ALLOWED - {"stream_dp_release_scheduled_seconds"},
    )
    with_markers = {"stream_dp_release_due_timestamp_seconds"}  # nothing is due without a schedule
    assert seen["end"] == ((CONFIDENTIAL | ALLOWED) - with_markers, ALLOWED)


def test_the_public_numbers(place: StudyFolder) -> None:
    study = load_study(place.file)[0]
    seen: dict[str, dict[str, float]] = {}
    watched(place, lambda step, _, public: seen.update({step: metrics(public)}))
    hashed = f'study_hash="{study.hash}"'
    about = f'stream_dp_study_info{{study="small",{hashed},version="{__version__}"}}'
    start = {about: 1, f"stream_dp_rho_spent{STUDY}": 0, f"stream_dp_rho_left{STUDY}": 0.5}
    assert seen["owned"] == start | {f"stream_dp_release_index{STUDY}": -1}
    assert seen["end"] == start | {f"stream_dp_release_index{STUDY}": 0}
    for records in script():
        place.send(records)
    watched(place, lambda step, _, public: seen.update({step: metrics(public)}))
    assert seen["end"] == {
        about: 1,
        f"stream_dp_rho_spent{STUDY}": 0.4,
        f"stream_dp_rho_left{STUDY}": 0.1,
        f"stream_dp_release_index{STUDY}": 2 * PERIODS - 1,
        f"stream_dp_release_scheduled_seconds{STUDY}": study.periods.release_time(PERIODS),
    }
    assert (PERIODS, LABELS[-1]) == (5, "2021-05")


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/readyz", "/metrics/", "/metrics?x", "/../metrics", "*"]
)
def test_everything_else_is_missing_on_the_public_side(facts: Facts, path: str) -> None:
    with both(facts) as (inside, public):
        assert ask(public, path)[::2] == (404, b"not found\n")
        if path not in {"/healthz", "/readyz"}:
            assert ask(inside, path)[::2] == (404, b"not found\n")


def test_counts_are_for_clients_with_the_token(facts: Facts) -> None:
    with both(facts) as (inside, public):
        for header in ("", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"{TOKEN} x"):
            answer = ask(inside, "/metrics", headers={"Authorization": header})
            assert answer[::2] == (401, b"unauthorized\n"), header
        assert ask(inside, "/metrics", headers={})[::2] == (401, b"unauthorized\n")
        assert ask(inside, "/metrics", "POST", headers={}).status == 501
        assert ask(inside, "/metrics", headers=BEARER).status == 200
        for port, path in ((inside, "/healthz"), (inside, "/readyz"), (public, "/metrics")):
            assert ask(port, path, headers={}).status in {200, 503}


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('listen = "127.0.0.1:0"', "run.listen: every user of a machine reaches it"),
        ('listen = "127.0.0.1:0"\nlisten_token = "none"', "none cannot be read"),
        ('listen = "127.0.0.1:0"\nlisten_token = "short"', "less than 16 characters"),
    ],
)
def test_no_listener_counts_for_everybody(
    place: StudyFolder, run: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.folder / "short").write_text("short")
    place.file.write_text(f"{place.file.read_text()}\n{run}\n")
    assert said in refusal(capsys, 2, "run", place.file, "--until-idle")
    assert not place.db.exists()


def test_names_are_declared_in_the_file_or_in_the_environment(
    place: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_DP_LISTEN_HOSTS", "releaser,metrics.example.org")
    assert load_study(place.file)[1].listen_hosts == ("releaser", "metrics.example.org")


@pytest.mark.parametrize("path", ["/metrics", "/secret-path"])
def test_headers_say_nothing_of_the_program(facts: Facts, path: str) -> None:
    with both(facts) as ports:
        for port in ports:
            headers = ask(port, path).headers
            assert headers.pop("Server") == "stream-dp"
            assert headers.keys() == {"Date", "Content-Type", "Content-Length"}


# What moves, and when


def test_public_metrics_do_not_move_before_publication(place: StudyFolder) -> None:
    for records in script():
        place.send(records)
    moved: list[str] = []
    last: list[bytes] = []

    def look(step: str, _: int, public: int) -> None:
        now = ask(public, "/metrics").body
        if last and now != last[-1]:
            moved.append(step)
        last.append(now)

    watched(place, look)
    assert moved == ["published"] * (PERIODS + 1)


def test_public_metrics_are_the_same_on_any_input(folder: Path) -> None:
    """Byte for byte, and in the same order, with and without reports: no noise need be coupled."""
    sequences = []
    scheduled = declaration(SCHEDULE)
    for name, text, batches in (
        ("full", declaration(), script()),
        ("empty", declaration(), [markers(n) for n in range(1, PERIODS + 1)]),
        ("full-scheduled", scheduled, script()),
        ("empty-scheduled", scheduled, [[] for _ in range(PERIODS)]),
    ):
        place = StudyFolder(folder / name, text)
        for records in batches:
            place.send(records)
        place.clock.now = 1_700_000_000.0  # type: ignore[attr-defined]
        seen: list[bytes] = []

        def look(step: str, _: int, public: int, seen: list[bytes] = seen) -> None:
            now = ask(public, "/metrics").body
            if not seen or now != seen[-1]:
                seen.append(now)

        watched(place, look)
        watched(place, look)
        sequences.append(seen)
    assert sequences[0] == sequences[1]
    assert sequences[2] == sequences[3]
    assert len(sequences[0]) == len(sequences[2]) > PERIODS


def test_a_restart_shows_what_was_published_before(place: StudyFolder) -> None:
    for records in script()[:3]:
        place.send(records)
    seen: list[dict[str, float]] = []
    for _ in range(2):
        watched(
            place,
            lambda step, _, public: seen.append(metrics(public)) if step == "end" else None,
        )
    assert seen[0] == seen[1]


def test_a_listener_sees_all_of_a_publication_or_nothing(facts: Facts) -> None:
    before = facts.published
    facts.publish(2, Fraction(1, 5), 7.0)
    assert (before.index, before.spent, before.scheduled) == (-1, 0, None)
    after = facts.published
    assert (after.index, after.spent, after.scheduled) == (1, Fraction(1, 5), 7.0)
