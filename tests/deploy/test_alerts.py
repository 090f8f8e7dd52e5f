"""Every alert speaks when it must and is silent when it must be, by Prometheus' own promtool."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kit.tools import needs, tool

PROMETHEUS = Path(__file__).parent.parent.parent / "deploy" / "prometheus"
OPERATIONS = PROMETHEUS.parents[1] / "docs" / "how-to" / "operations.md"
STUDY = 'study="small"'
LATE = f'stream_dp_cells_rejected_total{{{STUDY},reason="late"}}'
VALUE = f'stream_dp_cells_rejected_total{{{STUDY},reason="value"}}'
RECEIVED = f"stream_dp_cells_received_total{{{STUDY}}}"
READY = f"stream_dp_ready{{{STUDY}}}"
STARTED = f"stream_dp_start_time_seconds{{{STUDY}}}"
ANSWERED = f"stream_dp_log_answered_timestamp_seconds{{{STUDY}}}"
DUE = f"stream_dp_release_due_timestamp_seconds{{{STUDY}}}"
ACCEPTED = f"stream_dp_closed_period_accepted_cells{{{STUDY}}}"
LAG, PAUSED = (f"stream_dp_input_{which}{{{STUDY}}}" for which in ("lag_seconds", "paused"))
OPEN = f"stream_dp_open_period_cells{{{STUDY}}}"
LAST = {f"stream_dp_closed_period_accepted_cells{{{STUDY}}}": "10x99"}
FAILED = f'stream_dp_job{{{STUDY},job="j",state="failed"}}'
RUNNING = f'stream_dp_job{{{STUDY},job="j",state="running"}}'
LEFT, SPENT = (f"stream_dp_rho_{which}{{{STUDY}}}" for which in ("left", "spent"))
CLOSE = f"stream_dp_close_due_timestamp_seconds{{{STUDY}}}"
HELD = f"stream_dp_period_held{{{STUDY}}}"
WAITS = f'stream_dp_job_waiting_since_timestamp_seconds{{{STUDY},job="j"}}'
MONITOR, SHOWS = 'up{job="monitor",instance="m"}', "stream_dp_monitor_ready"
UP = 'up{job="releaser",instance="a"}'

WITHOUT_STUDY = {"ReleaserDown", "MonitorDown"}

promtool = needs("promtool")


class Case(NamedTuple):
    """series: a sample a minute, in promtool's notation; fires: whether, that minute."""

    alert: str
    about: str
    series: dict[str, str]
    minute: int
    fires: bool
    within_ten: bool = False  # of the fault, which is there from the first minute on


CASES = [
    Case("ReleaserDown", "it answers", {UP: "1x30"}, 20, fires=False),
    Case("ReleaserDown", "down a short time", {UP: "1x5 0x2 1x20"}, 20, fires=False),
    Case("ReleaserDown", "down", {UP: "1x5 0x20"}, 12, fires=True),
    Case("ReleaserDown", "down, not yet for long", {UP: "1x5 0x20"}, 9, fires=False),
    Case("ReleaserDown", "not even a target", {READY: "1x30"}, 6, fires=True),
    Case("ReleaserNotReady", "ready", {READY: "0x3 1x30"}, 25, fires=False),
    Case("ReleaserNotReady", "never ready", {READY: "0x30"}, 10, fires=True, within_ten=True),
    Case("ReleaserDown", "down from the start", {UP: "0x20"}, 6, fires=True, within_ten=True),
    Case("ReaderStale", "silent", {ANSWERED: "0x20"}, 6, fires=True, within_ten=True),
    Case(
        "ReleaserRestarts",
        "restarts each minute",
        {STARTED: "1+1x20"},
        5,
        fires=True,
        within_ten=True,
    ),
    *(
        Case(alert, about, {series: values}, minute, fires=fires, within_ten=fires)
        for alert, series in (
            ("AggregatorMissing", f'stream_dp_process_missing{{{STUDY},process="aggregator"}}'),
            ("WorkerMissing", f'stream_dp_process_missing{{{STUDY},process="worker"}}'),
        )
        for about, values, minute, fires in (
            ("it lives", "0x20", 10, False),
            ("missed for a moment", "0x3 1x3 0x20", 9, False),
            ("missing", "1x20", 6, True),
        )
    ),
    Case("MonitorDown", "it answers", {MONITOR: "1x20", SHOWS: "1x20"}, 10, fires=False),
    Case("MonitorDown", "dead", {MONITOR: "0x20"}, 6, fires=True, within_ten=True),
    Case("MonitorDown", "nothing to show", {SHOWS: "0x20"}, 6, fires=True),
    Case("CloseWaits", "not yet due", {CLOSE: "3600x90"}, 60, fires=False),
    Case("CloseWaits", "just due", {CLOSE: "0x20"}, 5, fires=False),
    Case("CloseWaits", "due", {CLOSE: "0x20"}, 8, fires=True, within_ten=True),
    Case("CloseWaits", "closed", {CLOSE: "0x3 stale"}, 20, fires=False),
    Case("PeriodHeld", "open", {HELD: "0x20"}, 10, fires=False),
    Case("PeriodHeld", "held", {HELD: "0x5 1x20"}, 6, fires=True),
    Case("JobWaits", "for a while", {WAITS: "0x400"}, 350, fires=False),
    Case("JobWaits", "for hours", {WAITS: "0x400"}, 361, fires=True),
    Case("ReleaserNotReady", "a broker away for a while", {READY: "1x9 0x5 1x30"}, 25, fires=False),
    Case("ReleaserNotReady", "no more ready", {READY: "1x9 0x40"}, 27, fires=True),
    Case(
        "ReleaserNotReady",
        "between starts",
        {READY: "0 stale " + "0 stale stale " * 9},
        20,
        fires=True,
    ),
    Case("ReleaserRestarts", "started once again", {STARTED: "1x9 2x30"}, 20, fires=False),
    Case(
        "ReleaserRestarts", "again and again", {STARTED: "1 1 2 2 3 3 4 4 5 5x30"}, 20, fires=True
    ),
    Case(
        "ReleaserRestarts", "that is long ago", {STARTED: "1 1 2 2 3 3 4 4 5 5x90"}, 80, fires=False
    ),
    Case("ReaderStale", "it reads", {ANSWERED: "0+60x60"}, 40, fires=False),
    Case("ReaderStale", "a short silence", {ANSWERED: "0+60x10 600x3"}, 14, fires=False),
    Case("ReaderStale", "born at its last value", {ANSWERED: "_x9 600x30"}, 16, fires=True),
    Case("ReaderStale", "silence", {ANSWERED: "0+60x10 600x30"}, 16, fires=True),
    Case("ReaderStale", "it reads again", {ANSWERED: "0+60x10 600x9 1200+60x30"}, 25, fires=False),
    Case("ReleaseOverdue", "not yet due", {DUE: "3600x200"}, 59, fires=False),
    Case("ReleaseOverdue", "just due", {DUE: "3600x200"}, 74, fires=False),
    Case("ReleaseOverdue", "overdue", {DUE: "3600x200"}, 76, fires=True),
    Case("ReleaseOverdue", "born overdue", {DUE: "_x90 3600x200"}, 91, fires=True),
    Case("ReleaseOverdue", "published", {DUE: "3600x61 7200x90"}, 100, fires=False),
    Case("ReleaseOverdue", "the last one is published", {DUE: "3600x61 stale"}, 100, fires=False),
    Case("IntakeLags", "all is read", {LAG: "0x60"}, 50, fires=False),
    Case("IntakeLags", "a backlog that shrinks", {LAG: "2000-100x60"}, 20, fires=False),
    Case(
        "IntakeLags", "it lags, not yet for long", {LAG: "0+60x60", PAUSED: "0x60"}, 30, fires=False
    ),
    Case("IntakeLags", "it lags", {LAG: "0+60x60", PAUSED: "0x60"}, 32, fires=True),
    Case("IntakeLags", "a release waits", {LAG: "0+60x60", PAUSED: "1x60"}, 50, fires=False),
    Case(
        "PeriodSmall",
        "far from its close",
        {OPEN: "4x60", **LAST, DUE: "200000x60"},
        50,
        fires=False,
    ),
    Case("PeriodSmall", "half is there", {OPEN: "5x60", **LAST, DUE: "86400x60"}, 50, fires=False),
    Case("PeriodSmall", "less than half", {OPEN: "4x60", **LAST, DUE: "86400x60"}, 50, fires=True),
    Case(
        "PeriodSmall", "nothing is there", {OPEN: "0x60", **LAST, DUE: "86400x60"}, 50, fires=True
    ),
    Case("PeriodSmall", "no calendar", {OPEN: "0x60", **LAST}, 50, fires=False),
    Case("PeriodSmall", "the first one", {OPEN: "0x60", DUE: "86400x60"}, 50, fires=False),
    Case("PeriodSmall", "too late", {OPEN: "0x99", **LAST, DUE: "3600x99"}, 80, fires=False),
    Case(
        "PeriodSmall",
        "a release waits, the next period has begun",
        {OPEN: "0x60", **LAST, DUE: "86400x60", PAUSED: "1x60"},
        50,
        fires=False,
    ),
    Case("PeriodEmpty", "none is closed", {READY: "1x30"}, 20, fires=False),
    Case("PeriodEmpty", "none is empty", {ACCEPTED: "_x9 7x9 3x9"}, 20, fires=False),
    Case("PeriodEmpty", "born empty", {ACCEPTED: "_x9 0x9"}, 10, fires=True),
    Case("PeriodEmpty", "the last one is empty", {ACCEPTED: "7x9 0x30"}, 20, fires=True),
    Case("PeriodEmpty", "one before was", {ACCEPTED: "0x9 7x30"}, 20, fires=False),
    Case("JobFailed", "it runs", {RUNNING: "1x30"}, 20, fires=False),
    Case("JobFailed", "born failed", {FAILED: "_x9 1x30"}, 16, fires=True),
    Case("JobFailed", "it failed and is tried again", {FAILED: "1x3 stale"}, 20, fires=False),
    Case("JobFailed", "it failed", {RUNNING: "1x9 stale", FAILED: "_x9 1x30"}, 20, fires=True),
    Case("BudgetNearlySpent", "much is left", {LEFT: "0.4x30", SPENT: "0.1x30"}, 20, fires=False),
    Case(
        "BudgetNearlySpent", "little is left", {LEFT: "0.04x30", SPENT: "0.46x30"}, 20, fires=True
    ),
    Case("BudgetNearlySpent", "nothing is left", {LEFT: "0x30", SPENT: "0.5x30"}, 20, fires=False),
    Case("BudgetSpent", "little is left", {LEFT: "0.04x30", SPENT: "0.46x30"}, 20, fires=False),
    Case(
        "BudgetSpent",
        "nothing is left",
        {LEFT: "0.1x9 0x30", SPENT: "0.4x9 0.5x30"},
        20,
        fires=True,
    ),
    Case("BudgetSpent", "less than nothing", {LEFT: "-3x30", SPENT: "4x30"}, 20, fires=True),
]

# Samples of cells that are rejected as late, that have another value, and that are received.
REJECTED = [
    ("nothing comes", "0x90", "0x90", "0x90", 80, False),
    ("nothing is rejected", "0x90", "0x90", "0+100x90", 80, False),
    ("a few are rejected", "0+1x90", "0+1x90", "0+100x90", 80, False),
    ("few for each reason, but many", "0+3x90", "0+3x90", "0+100x90", 80, True),
    ("after a quiet time", "0x90 0+9x30", "0x120", "0x90 0+10x30", 112, True),
    ("many, but not yet for long", "0x90 0+9x30", "0x120", "0x90 0+10x30", 94, False),
    ("all at once, in one scrape", "0x90 500x60", "0x150", "0x90 600x60", 112, True),
    ("from the first minute", "900x30", "0x30", "1000x30", 6, True),
    ("all before the first scrape", "_x9 900x90", "_x9 0x90", "_x9 1000x90", 30, True),
    ("few before the first scrape", "_x9 9x90", "_x9 0x90", "_x9 1000x90", 30, False),
    ("a reason is born at its value", "_x9 500x60", "0x150", "500x9 1000x60", 30, True),
    ("more than an hour ago", "_x9 900x200", "_x9 0x200", "_x9 1000x200", 120, False),
    ("long ago, and now a few", "900+1x200", "0x200", "1000+100x200", 120, False),
    ("a new process that rejects nothing", "900x90 0x60", "0x150", "990x90 0+9x60", 130, False),
    ("a new process that rejects most", "0x90 0x2 80x60", "0x152", "9x90 0x2 90x60", 112, True),
]
CASES += [
    Case(
        "ReportsRejected",
        about,
        {LATE: late, VALUE: value, RECEIVED: received},
        minute,
        fires=fires,
        within_ten=fires and minute <= 10,
    )
    for about, late, value, received, minute, fires in REJECTED
]


def rules() -> dict[str, str]:
    """The text of each alert."""
    blocks = (PROMETHEUS / "alerts.yml").read_text().split("- alert: ")[1:]
    return {block.split()[0]: block for block in blocks}


def check(*arguments: object) -> None:
    command = [tool("promtool") or "promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_rules_and_the_example_of_a_configuration_are_valid() -> None:
    check("check", "rules", PROMETHEUS / "alerts.yml")
    check("check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml")


def promtool_test(case: Case) -> dict[str, Any]:
    """A case in promtool's words; a failure names the alert and the minute."""
    severity = re.findall(r"severity: (\w+)", rules()[case.alert])[0]
    study = "" if case.alert in WITHOUT_STUDY else f", {STUDY}"
    labels = f'{{alertname="{case.alert}", severity="{severity}"{study}}}'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": v} for name, v in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f"sum by (alertname, severity, study)"
                f' (ALERTS{{alertname="{case.alert}",alertstate="firing"}})',
                "eval_time": f"{case.minute}m",
                "exp_samples": [{"labels": labels, "value": 1}] if case.fires else [],
            }
        ],
    }


def promtool_files(cases: Sequence[Case], folder: Path) -> list[Path]:
    """A file of tests for each alert, with its rule alone: no rule depends on another."""
    head = (PROMETHEUS / "alerts.yml").read_text().partition("- alert: ")[0]
    files = []
    for name, block in rules().items():
        alert, file = folder / f"{name}.rules.yml", folder / f"{name}.yml"
        alert.write_text(f"{head}- alert: {block}")
        tests = [promtool_test(case) for case in cases if case.alert == name]
        file.write_text(  # JSON is YAML
            json.dumps({"rule_files": [str(alert)], "evaluation_interval": "1m", "tests": tests})
        )
        files.append(file)
    return files


@promtool
def test_alerts_speak_when_they_must_and_are_silent_when_they_must_be(tmp_path: Path) -> None:
    check("test", "rules", *promtool_files(CASES, tmp_path))


@promtool
def test_an_alert_that_is_silent_is_noticed(tmp_path: Path) -> None:
    wrong = next(case for case in CASES if case.fires)._replace(fires=False)
    with pytest.raises(AssertionError, match=rf"{wrong.alert}.*time: {wrong.minute}m"):
        check("test", "rules", *promtool_files([wrong], tmp_path))


def test_no_rule_depends_on_another() -> None:
    text = (PROMETHEUS / "alerts.yml").read_text()
    assert text.count("- alert: ") == len(rules())
    assert text.count("- name: ") == 1
    assert "ALERTS" not in text
    assert "record:" not in text


def test_every_alert_is_tested_and_has_a_severity_a_summary_and_an_action() -> None:
    assert {case.alert for case in CASES if case.fires} == set(rules())
    assert {case.alert for case in CASES if not case.fires} == set(rules())
    for name, block in rules().items():
        assert re.findall(r"severity: (critical|warning|info)\b", block), name
        assert "summary: " in block
        assert "action: " in block
        assert name in WITHOUT_STUDY or "{{ $labels.study }}" in block


def test_the_operations_page_explains_every_alert() -> None:
    text = OPERATIONS.read_text()
    rows = re.findall(r'^\| <a id="(\w+)"></a>`([A-Z]\w+)` \|', text, re.MULTILINE)
    assert [name for _, name in rows] == list(rules())
    for (anchor, name), block in zip(rows, rules().values(), strict=True):
        (link,) = re.findall(r"runbook_url: \S+/(operations\.md#\w+)$", block, re.MULTILINE)
        assert link == f"operations.md#{anchor}", name


# By fault: the alerts of which one fires within ten minutes.
FAULTS = {
    "the broker does not answer, or a topic has no leader": ["ReaderStale", "ReleaserNotReady"],
    "a right was taken away, or the password was changed": ["ReleaserDown"],
    "the worker is dead": ["WorkerMissing"],
    "the aggregator is dead": ["AggregatorMissing"],
    "the disk is full": ["ReleaserRestarts"],
    "a key is missing or wrong": ["ReleaserDown"],
    "the schema registry does not answer": ["ReleaserRestarts", "AggregatorMissing"],
    "a clock is wrong": ["CloseWaits"],
    "reports come late": ["ReportsRejected"],
    "the monitor is dead": ["MonitorDown"],
    "topics were changed on the cluster": ["ReleaserDown", "ReleaserRestarts"],
    "snapshots are missing, or of another study": ["ReleaserDown", "AggregatorMissing"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_an_alert_that_fires_within_ten_minutes(fault: str) -> None:
    assert {*FAULTS[fault]} <= {case.alert for case in CASES if case.fires and case.within_ten}
