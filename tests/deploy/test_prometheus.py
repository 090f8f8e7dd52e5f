"""A real Prometheus that scrapes a running releaser: expressions of dashboards, and alerts."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import free_port
from kit.dashboards import GRAFANA, expressions, filled
from kit.fork_server import Popen
from kit.prometheus import Prometheus, scraping, until
from kit.studies import attribute, study_toml, window
from kit.tools import needs

from stream_dp.services.commands.cli import main

pytestmark = needs("prometheus")

RULES = GRAFANA.parent / "prometheus" / "alerts.yml"
PEOPLE = 20
RECEIVED = 'stream_dp_cells_received_total{job="releaser"}'


class World(NamedTuple):
    """A releaser, in its own process, and a Prometheus that scrapes both of its listeners."""

    releaser: Popen
    prometheus: Prometheus
    study: str


NOW = datetime.now(UTC)
# Days after a month's end until it closes: none closes within days of now.
GRACE = 0 if 10 <= NOW.day <= 20 else 15


def months() -> list[str]:
    """Two months that are closed, the one that is open and the next."""
    now = NOW - timedelta(days=GRACE)
    numbers = [now.year * 12 + now.month - 1 + step for step in (-2, -1, 0, 1)]
    return [f"{number // 12}-{number % 12 + 1:02d}" for number in numbers]


def declaration() -> str:
    return study_toml(
        name="live",
        neighbours="replace_in_place",
        periods={
            **{"first": months()[0], "every": "month", "count": 4},
            **{"close": "schedule", "zone": "UTC", "grace": f"{GRACE}d", "delay": "1s"},
        },
        size=PEOPLE,
        attributes={"work": attribute([0, 1], missing=0)},
        groups={"unit": "household", "most": 4, "attributes": {"region": {"values": ["north"]}}},
        releases=[
            window("pairs", "work", width=2, rho=0.4),
            {
                **{"name": "homes", "kind": "independent", "attributes": ["work"]},
                **{"every": 1, "rho": 0.1},
            },
        ],
        run={"log": "sqlite:live.db", "public": "sqlite:live-public.db"},
    )


def send(folder: Path) -> None:
    """Reports of the open month, as many of a closed one, and values that there are none of."""
    _, over, now, _ = months()
    lines = [
        f"p{i},{month},{value}" for i in range(PEOPLE) for month, value in ((over, 1), (now, i % 3))
    ]
    (folder / "reports.csv").write_text("\n".join(["person,period,work", *lines]))
    files = [str(folder / "live.toml"), str(folder / "reports.csv")]
    assert main(["send", *files]) == 0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("live")
    study = folder / "live.toml"
    study.write_text(declaration())
    (folder / "groups.csv").write_text("group,region\n" + "".join(f"{g},north\n" for g in range(5)))
    members = "".join(f"p{i},{i // 4}\n" for i in range(PEOPLE))
    (folder / "members.csv").write_text("person,group\n" + members)
    tables = [str(folder / name) for name in ("groups.csv", "members.csv")]
    assert main(["groups", str(study), *tables]) == 0
    inside, public = free_port(), free_port()
    command = [sys.executable, "-m", "stream_dp.services.commands.cli", "run", "--json", str(study)]
    addresses = {
        "STREAM_DP_LISTEN": f"127.0.0.1:{inside}",
        "STREAM_DP_LISTEN_PUBLIC": f"127.0.0.1:{public}",
        "STREAM_DP_LISTEN_TOKEN": str(folder / "token"),
    }
    (folder / "token").write_text("a token of the tests alone")
    with (folder / "log").open("wb") as log:
        releaser = Popen(command, env=os.environ | addresses, stdout=log, stderr=log)
    # What an alert waits for before it fires is short here; its condition stays as it is.
    rules = re.sub(r"\bfor: \w+", "for: 1s", RULES.read_text())
    try:
        targets = {"releaser": inside, "public": public}
        with scraping(folder, free_port(), targets, rules, token=folder / "token") as prometheus:
            world = World(releaser, prometheus, "live")
            # An increase starts at the first sample: one of 0 comes before the reports.
            until(lambda: prometheus.query(RECEIVED))
            send(folder)
            yield world
    finally:
        releaser.kill()
        releaser.wait()


def value(world: World, expression: str) -> float:
    """Of an expression with one sample; 0 where it has none."""
    return next((number for _, number in world.prometheus.query(expression)), 0.0)


def settled(world: World) -> bool:
    """Whether all reports are read, and the data sets of both months are public."""
    done = value(world, 'count(stream_dp_job{state="done"})')
    increase = value(world, f"increase({RECEIVED}[1h])")
    assert world.releaser.poll() is None
    return done == 2 and value(world, RECEIVED) == 2 * PEOPLE and increase > 0


@pytest.mark.parametrize("name", ["operators.json", "public.json"])
def test_every_expression_gives_data(world: World, name: str) -> None:
    until(lambda: settled(world))
    until(lambda: "PeriodEmpty" in world.prometheus.firing())
    for expression in expressions(name):
        # A scrape that comes late leaves a gap.
        asked = filled(expression, world.study)
        until(lambda asked=asked: world.prometheus.query(asked), what=asked)


def test_the_public_listener_alone_fills_the_public_board(world: World) -> None:
    until(lambda: settled(world))

    def jobs(asked: str) -> set[str]:
        return {labels["job"] for labels, _ in world.prometheus.query(asked)}

    for expression in expressions("public.json"):
        asked = filled(expression, world.study)
        until(lambda asked=asked: "public" in jobs(asked), what=asked)
    shown = {
        metric
        for expression in expressions("public.json")
        for metric in re.findall(r"stream_dp_\w+", expression)
    }

    def names() -> set[str]:
        samples = world.prometheus.query('{job="public", __name__=~"stream_dp_.+"}')
        return {labels["__name__"] for labels, _ in samples}

    until(lambda: names() == shown, what=f"{shown} alone")


def test_what_is_counted_is_what_was_sent(world: World) -> None:
    until(lambda: settled(world))

    bad = sum(i % 3 == 2 for i in range(PEOPLE))
    expected = {
        "input_lag_records": 0,
        'cells_rejected_total{reason="late"}': PEOPLE,
        'cells_rejected_total{reason="value"}': bad,
        "open_period_cells": PEOPLE - bad,
        "cells_pending": PEOPLE - bad,
        "closed_period_accepted_cells": 0,
        "input_lag_seconds": 0,
        "ready": 1,
    }
    for metric, number in expected.items():
        name, _, more = metric.partition("{")
        asked = f'stream_dp_{name}{{job="releaser",{more or "}"}'
        until(
            lambda asked=asked, number=number: (
                [v for _, v in world.prometheus.query(asked)] == [number]
            ),
            what=f"{asked} {number}",
        )


def test_alerts_fire_for_what_is_wrong_and_for_nothing_else(world: World) -> None:
    """The last in this file: it ends the releaser."""
    until(lambda: settled(world))
    wrong = {"PeriodEmpty", "ReportsRejected"}
    until(lambda: world.prometheus.firing() == wrong, what=f"{wrong} alone")
    world.releaser.send_signal(signal.SIGKILL)
    until(lambda: "ReleaserDown" in world.prometheus.firing())
