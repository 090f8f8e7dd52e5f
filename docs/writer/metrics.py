"""Metrics from the collectors of the two listeners; alerts from the rules that are shipped."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import yaml
from prometheus_client.core import Metric

from stream_dp.services.releaser.metrics_listeners import ConfidentialMetrics, PublicMetrics
from stream_dp.services.releaser.releaser_facts import Facts, InputFacts, PublicFacts
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
_SUFFIX = {"counter": "_total", "info": "_info"}


def study() -> Study:
    """A study for which every metric is exported: it has a schedule and data sets of groups."""
    return parse_study(
        {
            "study": {
                "name": "homes",
                "unit": "person",
                "neighbours": "replace_in_place",
                "rho": 1,
                "delta": "1/1000000",
                "periods": {
                    "first": "2021-01",
                    "every": "month",
                    "count": 2,
                    "close": "schedule",
                    "zone": "UTC",
                },
                "population": {"size": 10},
            },
            "attributes": {"work": {"values": [0, 1], "missing": 0}},
            "groups": {"unit": "household", "most": 4},
            "releases": [
                {
                    "name": "households",
                    "kind": "independent",
                    "attributes": ["work"],
                    "every": 1,
                    "rho": "1/2",
                }
            ],
        }
    )


def families() -> dict[str, list[Metric]]:
    """By listener, every metric that a releaser can export."""
    facts = Facts(study(), published=PublicFacts(0, Fraction(0), 0.0))
    facts.released, facts.answered, facts.closed_accepted = 0, 0.0, 0
    facts.input, facts.open_period = InputFacts(), 1
    facts.missing = {"aggregator": True}
    facts.job("households-2", "waiting")
    facts.job("households-1", "running")
    return {
        "public": list(PublicMetrics(facts).collect()),
        "confidential": list(ConfidentialMetrics(facts).collect()),
    }


def markdown() -> str:
    titles = {
        "public": "Public metrics: each depends only on published facts",
        "confidential": "Confidential metrics: only on the listener `listen`",
    }
    parts = []
    for listener, metrics in families().items():
        lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
        for metric in metrics:
            names = {label: None for sample in metric.samples for label in sample.labels}
            labels = ", ".join(f"`{name}`" for name in names)
            name = metric.name + _SUFFIX.get(metric.type, "")
            lines.append(f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |")
        parts.append(f"## {titles[listener]}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def alerts() -> str:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    lines = ["| alert | severity | after | what it says | what to do |", "|---|---|---|---|---|"]
    for rule in group["rules"]:
        name, words = rule["alert"], rule["annotations"]
        severity = rule.get("labels", {}).get("severity", "")
        after = rule.get("for", "at once")
        lines.append(
            f'| <a id="{name.lower()}"></a>`{name}` | {severity} | {after} | {words["summary"]} |'
            f" {words['action']} |"
        )
    return "\n".join(lines)
