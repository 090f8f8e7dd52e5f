"""No more answers are computed at once than the monitor's memory has room for."""

import os
from pathlib import Path

import pytest
import yaml
from kit.charts import DEPLOY

from stream_dp.services.monitor.answer_limits import answers_at_once, memory_limit
from stream_dp.services.monitor.forks import MEMORY

GIB = 1 << 30
OWN = GIB // 2


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 6), (999, 64)])
def test_answers_at_once_on_64_processors(monkeypatch, limit, at_once):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert answers_at_once(limit * GIB) == at_once
    assert answers_at_once(None) == 64


def test_the_limits_of_the_chart_and_of_the_unit_have_room_for_two(monkeypatch):
    """Whatever the number of processors: answers, a download and both processes fit."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    values = yaml.safe_load((DEPLOY / "helm/values.yaml").read_text())
    chart = values["monitor"]["resources"]["limits"]["memory"]
    unit = (DEPLOY / "stream-dp-monitor.service").read_text()
    (service,) = (line for line in unit.splitlines() if line.startswith("MemoryMax="))
    for text in (chart.removesuffix("i"), service.removeprefix("MemoryMax=")):
        limit = int(text.removesuffix("G")) * GIB
        assert answers_at_once(limit) == 2
        assert OWN + (answers_at_once(limit) + 1) * MEMORY <= limit


def test_the_smallest_limit_around_a_process_counts(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    (groups / "a/b").mkdir(parents=True)
    own.write_text("0::/a/b\n")
    assert memory_limit(groups, own) is None
    (groups / "a/b/memory.max").write_text("max\n")
    assert memory_limit(groups, own) is None
    (groups / "a/memory.max").write_text("5\n")
    (groups / "memory.max").write_text("7\n")
    assert memory_limit(groups, own) == 5
    assert memory_limit(groups, Path("/nowhere")) is None
