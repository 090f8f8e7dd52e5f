"""Dashboards: built as Grafana reads them, and about metrics that there are."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml
from kit.dashboards import GRAFANA, board, expressions, panels
from kit.listeners import ALLOWED
from prometheus_client.core import Metric

BOARDS = ("operators.json", "public.json")


def metrics_named(name: str) -> set[str]:
    return {
        metric
        for expression in [*expressions(name), json.dumps(board(name)["templating"])]
        for metric in re.findall(r"\bstream_dp_\w+", expression)
    }


def test_the_public_board_is_about_what_the_public_listener_serves() -> None:
    assert metrics_named("public.json") <= ALLOWED
    assert "ALERTS" not in json.dumps(board("public.json"))


def exported() -> set[str]:
    """The names of everything that a releaser in full work exports."""
    from metrics import families

    suffix = {"counter": "_total", "info": "_info"}
    metrics: list[Metric] = [metric for part in families().values() for metric in part]
    return {metric.name + suffix.get(metric.type, "") for metric in metrics}


def test_every_metric_is_on_a_board() -> None:
    assert metrics_named("operators.json") | metrics_named("public.json") == exported()


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_a_place_a_title_and_words(name: str) -> None:
    content = board(name)
    everything: list[Any] = content["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in panels(name)}) == len(panels(name))
    for panel in everything:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in everything], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    for panel in panels(name):
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
        assert {target["refId"] for target in panel["targets"]} == set(
            "ABCDEFGH"[: len(panel["targets"])]
        )
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert '"$study"' in target["expr"] or '"$study|"' in target["expr"]


def test_they_are_provisioned_where_compose_puts_them() -> None:
    assert len({board(name)["uid"] for name in BOARDS}) == len(BOARDS)
    assert {path.name for path in GRAFANA.glob("*.json")} == set(BOARDS)
    provisioning = GRAFANA / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "stream-dp.yaml").read_text())[
        "providers"
    ]
    compose = yaml.safe_load((GRAFANA.parent / "compose.yaml").read_text())
    grafana = compose["services"]["grafana"]
    assert source["url"] == "http://prometheus:9090"
    assert set(grafana["networks"]) & set(compose["services"]["prometheus"]["networks"])
    assert "inside" not in grafana["networks"]
    assert grafana["profiles"] == ["grafana"]
    assert all(port.startswith("127.0.0.1:") for port in grafana["ports"])
    mounts = dict(volume.split(":")[:2][::-1] for volume in grafana["volumes"])
    for name in BOARDS:
        assert mounts[f"{provider['options']['path']}/{name}"] == f"./grafana/{name}"
    assert mounts["/etc/grafana/provisioning"] == "./grafana/provisioning"
    password = grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"]
    assert password.removeprefix("/run/secrets/") in compose["secrets"]
